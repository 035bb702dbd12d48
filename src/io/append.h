/* lk__append: a file that others read while it grows: a write is visible when it returns, and one
 * that fails leaves no half of itself. jsonl.c and tfevents.c have one each, on the thread of the
 * run.
 *
 * What could not be written is kept in memory, up to LK__APPEND_KEPT bytes, and written before what
 * comes next: a disk that is full for a while leaves no gap.  A link is not followed: where the file
 * begins anew it is replaced, where it goes on it is refused.
 */
#ifndef LK_IO_APPEND_H
#define LK_IO_APPEND_H

#include <lockstep/status.h>

#include <stdbool.h>
#include <stdint.h>

enum { LK__APPEND_KEPT = 1 << 20 };

typedef struct lk__append lk__append;

/** Open a file, which is made if it is not there, to write from byte `at` on; what lies behind is
 * cut off.  Its name is on disk when this returns. */
lk_status lk__append_open(const char *path, int64_t at, lk__append **out) LK_NODISCARD;

/** Write `n` bytes behind the last ones.  Errors: LK_EIO; they are kept then, as long as there is
 * room. */
lk_status lk__append_write(lk__append *a, const void *bytes, int64_t n) LK_NODISCARD;

/** Bytes of the file, with those that are kept. */
int64_t lk__append_bytes(const lk__append *a);

/** Write what is kept, and bring all to disk.  Errors: LK_EIO, also when something was lost. */
lk_status lk__append_sync(lk__append *a) LK_NODISCARD;

/** lk__append_sync(), close and free it, also after an error.  NULL is allowed. */
lk_status lk__append_close(lk__append *a) LK_NODISCARD;

#endif /* LK_IO_APPEND_H */
