/* The only file that knows zlib: gzip files, and deflated members of zip files.
 *
 * Unpacking goes through the data twice, once to count and once to keep: room is taken only for bytes
 * that were really there, and memory only for a few of them (spill.h).  What unpacks to more than 64 MiB
 * and more than 200 times its size is refused.  zlib's own memory comes from lk_alloc() as all other.  A build without zlib refuses
 * with LK_ENOTSUP.
 */
#ifndef LK_DATA_INFLATE_H
#define LK_DATA_INFLATE_H

#include "data/source.h"

enum { LK_INFLATE_FREE = 64 << 20, LK_INFLATE_RATIO = 200 };

/** Whether this build can unpack. */
bool lk__inflate_built(void);

/** All members of the gzip file `s`, unpacked, as a source of the same name that the caller owns. */
lk_status lk__gunzip(const lk__source *s, lk__source **out) LK_NODISCARD;

/** The raw deflate stream of `packed` bytes at `offset`, which must unpack to `size` bytes. */
lk_status lk__inflate(const lk__source *s, int64_t offset, int64_t packed, int64_t size,
                      lk__source **out) LK_NODISCARD;

/** Given bytes one behind the other; may set *enough, then no more come. */
typedef lk_status lk__take_fn(void *arg, const void *bytes, int64_t n, bool *enough);

/** Unpack as lk__inflate(), whatever it becomes, and give it to `take`, 16 KiB at a time. */
lk_status lk__inflate_to(const lk__source *s, int64_t offset, int64_t packed, lk__take_fn *take,
                         void *arg) LK_NODISCARD;

#endif /* LK_DATA_INFLATE_H */
