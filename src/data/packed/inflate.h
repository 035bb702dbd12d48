/* Unpacking with zlib: files of gzip and zlib, and deflated members of zip files.
 *
 * Unpacking goes through the data twice, once to count and once to keep: room is taken only for bytes
 * that were really there, and memory only for a few of them (spill.h).  What unpacks to more than 64 MiB
 * and more than 200 times its size is refused.  zlib's own memory comes from lk_alloc() as all other.  A
 * build without zlib refuses with LK_ENOTSUP.
 */
#ifndef LK_DATA_INFLATE_H
#define LK_DATA_INFLATE_H

#include "data/source.h"

enum { LK_INFLATE_FREE = 64 << 20, LK_INFLATE_RATIO = 200 };

/** Whether this build can unpack. */
bool lk__inflate_built(void);

/** What the first bytes of a file look like. */
lk_status lk__packing_guess(const lk__source *s, lk__packing *out) LK_NODISCARD;

/** All of a packed file (of gzip, all members), unpacked, as a source of the same name that the caller owns.
 * If it is damaged, that is an error, or, with `cut` not NULL, what comes before the damage is given and
 * `*cut` set. */
lk_status lk__unpack(const lk__source *s, lk__packing how, bool *cut,
                     lk__source **out) LK_NODISCARD;

/** The raw deflate stream of `packed` bytes at `offset`, which must unpack to `size` bytes. */
lk_status lk__inflate(const lk__source *s, int64_t offset, int64_t packed, int64_t size,
                      lk__source **out) LK_NODISCARD;

/** Given bytes one behind the other; may set *enough, then no more come. */
typedef lk_status lk__take_fn(void *arg, const void *bytes, int64_t n, bool *enough);

/** Unpack as lk__inflate(), whatever it becomes, and give it to `take`, 16 KiB at a time. */
lk_status lk__inflate_to(const lk__source *s, int64_t offset, int64_t packed, lk__take_fn *take,
                         void *arg) LK_NODISCARD;

/* ---- from the beginning to the end, without room for all of it ---- */

/** A packed file that is read in order.  One thread at a time. */
typedef struct lk__unpacker lk__unpacker;

/** Begin a file, which is borrowed. */
lk_status lk__unpacker_open(const lk__source *s, lk__packing how, lk__unpacker **out) LK_NODISCARD;

/** The next bytes, `n` of them unless the end comes before: `*got` are there, also after LK_EIO. */
lk_status lk__unpacker_read(lk__unpacker *u, void *out, int64_t n, int64_t *got) LK_NODISCARD;

/** NULL is allowed. */
void lk__unpacker_close(lk__unpacker *u);

#endif /* LK_DATA_INFLATE_H */
