/* lk__sink: a file being written.  It takes its name when it is complete and on disk, so that no
 * half of it is ever found, not even after a power cut.  A link of that name is replaced; its
 * target is not touched.  Formats, archives, reports and weights write to one; one thread at a
 * time. */
#ifndef LK_DATA_SINK_H
#define LK_DATA_SINK_H

#include <lockstep/status.h>

#include <stdint.h>

typedef struct lk__sink lk__sink;

/** Begin the file `path`, as `path` with ".part" behind it. */
lk_status lk__sink_open(const char *path, lk__sink **out) LK_NODISCARD;

/** The same, of a file that is packed by gzip: what is appended is unpacked. */
lk_status lk__sink_open_gzip(const char *path, lk__sink **out) LK_NODISCARD;

/** Append `n` bytes. */
lk_status lk__sink_write(lk__sink *s, const void *bytes, int64_t n) LK_NODISCARD;

/** Bytes written so far. */
int64_t lk__sink_at(const lk__sink *s);

/** Bring the file to disk; only its name is missing then.  Nothing can be appended afterwards, and little
 * memory is left: for sets of files that appear together. */
lk_status lk__sink_seal(lk__sink *s) LK_NODISCARD;

/** Bring the file to disk, give it its name and free the sink, which is gone after an error as well. */
lk_status lk__sink_close(lk__sink *s) LK_NODISCARD;

/** Remove the unfinished file and free the sink.  NULL is allowed. */
void lk__sink_abandon(lk__sink *s);

/** lk__sink_close() if `st` is LK_OK, else lk__sink_abandon() and `st`. */
lk_status lk__sink_end(lk__sink *s, lk_status st) LK_NODISCARD;

#endif /* LK_DATA_SINK_H */
