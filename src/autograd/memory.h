/* lk__memory, the allocator of a tape: blocks that are shared out again and again.
 *
 * Blocks lie one behind the other in chunks, which grow at their ends.  A large block that is not held any
 * more becomes one with free neighbours and waits in the bin of its size; who wants one takes nearly the
 * smallest that will do, and leaves the rest.  Small ones, of size classes, are cut from a large block, the
 * page, and wait in the list of their class for the next one of it.
 *
 * A reset takes all blocks back, and chunks begin to grow anew, in the memory that they have: a program that
 * does the same again gets the same places, and no more memory.
 *
 * A size class is a multiple of 64 bytes up to 512, then one of eight steps to the next power of two, so at
 * most an eighth of a small block is wasted.
 *
 * A tape owns one; all of it runs on the tape's thread.
 */
#ifndef LK_AUTOGRAD_MEMORY_H
#define LK_AUTOGRAD_MEMORY_H

#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

enum { LK_N_CLASSES = 8 * 56 };

/* What stands in front of a block's bytes, LK_ALIGN long with its padding. */
typedef struct lk__block {
    struct lk__block *next; /* in a bin, in a list of free blocks, or of a call's scratch blocks */
    struct lk__block *previous; /* in a bin */
    struct lk__block *below;    /* in the chunk, of a large block; NULL: it is the first */
    struct lk__chunk *chunk;
    int64_t bytes;
    int holds; /* 0: it is free */
    int class; /* of a small block; otherwise LK_LARGE */
} lk__block;

enum { LK_LARGE = -1 };

typedef struct lk__chunk {
    struct lk__chunk *next;
    struct lk__storage *storage; /* counts the views that the program has of it */
    struct lk__region *region;   /* whose memory it is; goes with the storage */
    int64_t used;                /* bytes with blocks, held or free; 0: not in use */
    lk__block *last;             /* of these */
} lk__chunk;

typedef struct lk__memory {
    lk__chunk *first;
    lk__block *bin[LK_N_CLASSES];    /* free large blocks of at least the bytes of the class */
    uint64_t has[LK_N_CLASSES / 64]; /* bits: the bins that are not empty */
    lk__block *page; /* where small blocks are cut from, its first `cut` bytes gone */
    int64_t cut;
    lk__block *free[LK_N_CLASSES]; /* small blocks */
    int64_t live, peak, held;      /* bytes */
} lk__memory;

/** A block of at least `bytes` bytes with one hold. */
lk_status lk__block_new(lk__memory *m, int64_t bytes, lk__block **out) LK_NODISCARD;

/** One hold less; NULL is allowed. */
void lk__block_release(lk__memory *m, lk__block *b);

static inline void *lk__block_data(lk__block *b)
{
    return (char *)b + LK_ALIGN;
}

/** Take all blocks back.  A chunk that the program has a view of is left to it. */
void lk__memory_reset(lk__memory *m);

/** Free the chunks; those that the program has views of live as long as these. */
void lk__memory_free(lk__memory *m);

#endif /* LK_AUTOGRAD_MEMORY_H */
