/* Files of JSON lines, from inside. */
#ifndef LK_IO_LINES_H
#define LK_IO_LINES_H

#include <lockstep/io.h>

/** As lk_lines_open() with `append`, but go on behind at most `bytes` of what is there. */
lk_status lk__lines_open_at(const char *path, int64_t bytes, lk_lines **out) LK_NODISCARD;

/** Bytes of the file, with lines that could not be written yet. */
int64_t lk__lines_bytes(const lk_lines *lines);

/** Bring all lines to disk. */
lk_status lk__lines_sync(lk_lines *lines) LK_NODISCARD;

#endif /* LK_IO_LINES_H */
