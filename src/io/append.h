/* A file that others read while it grows: a write is seen by them when it returns, and one that
 * fails leaves no half of itself. */
#ifndef LK_IO_APPEND_H
#define LK_IO_APPEND_H

#include <lockstep/status.h>

#include <stdint.h>

typedef struct lk__append lk__append;

/** Open a file, which is made if it is not there, to write from byte `at` on; what lies behind is
 * cut off. */
lk_status lk__append_open(const char *path, int64_t at, lk__append **out) LK_NODISCARD;

/** Write `n` bytes behind the last ones. */
lk_status lk__append_write(lk__append *a, const void *bytes, int64_t n) LK_NODISCARD;

/** Close and free it, also after an error.  NULL is allowed. */
lk_status lk__append_close(lk__append *a) LK_NODISCARD;

#endif /* LK_IO_APPEND_H */
