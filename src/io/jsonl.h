/* lk_jsonl from inside: how a run that is resumed goes on with its file.  For the run's output. */
#ifndef LK_IO_JSONL_H
#define LK_IO_JSONL_H

#include <lockstep/io.h>

/** As lk_jsonl_open() with `append`, but go on behind at most `bytes` of what is there. */
lk_status lk__jsonl_open_at(const char *path, int64_t bytes, lk_jsonl **out) LK_NODISCARD;

/** Bytes of the file, with lines that could not be written yet. */
int64_t lk__jsonl_bytes(const lk_jsonl *lines);

/** Bring all lines to disk. */
lk_status lk__jsonl_sync(lk_jsonl *lines) LK_NODISCARD;

#endif /* LK_IO_JSONL_H */
