/* Counted allocation.
 *
 * Every block of the library comes from here, so that a test can say "nothing leaked", "this loop
 * no longer allocates" and "fail the n-th allocation".  Blocks are aligned to 64 bytes, the widest
 * vector and a cache line.
 */
#ifndef LK_ALLOC_H
#define LK_ALLOC_H

#include <lockstep/status.h>

#include <stdint.h>

LK_BEGIN_DECLS

enum { LK_ALIGN = 64 };

/**
 * Allocate `count` elements of `size` bytes, uninitialised, aligned to LK_ALIGN.
 *
 * Not collective.  `out` is the address of a pointer of any object type: `lk_alloc(&p, n, sizeof
 * *p)`.  The caller owns the block and releases it with lk_free().  A block of zero bytes is valid
 * and distinct.  On failure `*out` is NULL.
 *
 * Errors: LK_EINVAL for a negative count, LK_EOVERFLOW when count * size does not fit, LK_ENOMEM.
 */
LK_API lk_status lk_alloc(void *out, int64_t count, size_t size) LK_NODISCARD;

/** As lk_alloc(), filled with zero bytes. */
LK_API lk_status lk_alloc_zero(void *out, int64_t count, size_t size) LK_NODISCARD;

/** Release a block of lk_alloc().  NULL is allowed. */
LK_API void lk_free(void *block);

/** What the process has allocated through lk_alloc(). */
typedef struct lk_alloc_stats {
    int64_t live_blocks; /* blocks not yet freed */
    int64_t live_bytes;  /* their sizes as asked for */
    int64_t peak_bytes;  /* the largest live_bytes so far */
    int64_t calls;       /* allocations asked for so far, failed ones included */
} lk_alloc_stats;

/** Not collective; thread safe. */
LK_API lk_alloc_stats lk_alloc_stats_now(void);

/**
 * Fault injection: make the n-th allocation from now fail with LK_ENOMEM (1 is the next one), once,
 * whichever thread asks.  0 switches it off.  For tests of error paths.
 */
LK_API void lk_alloc_fail_at(int64_t n);

LK_END_DECLS

#endif /* LK_ALLOC_H */
