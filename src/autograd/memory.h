/* The tape's memory: blocks that are shared out again and again.
 *
 * Blocks lie in a few large chunks, which are filled from the front.  A block that nobody holds any
 * more waits in the list of its size class for the next one of that class.  A reset empties the
 * lists and starts at the front again, in constant time; a program that does the same again then
 * gets the same places, and no new chunk.
 *
 * A size class is a multiple of 64 bytes up to 512, then one of eight steps to the next power of
 * two, so at most an eighth of a block is wasted.
 */
#ifndef LK_AUTOGRAD_MEMORY_H
#define LK_AUTOGRAD_MEMORY_H

#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

enum { LK_N_CLASSES = 8 * 56 };

/* What stands in front of a block's bytes, LK_ALIGN long with its padding. */
typedef struct lk__block {
    struct lk__block *next; /* in a list of free blocks, or of a call's scratch blocks */
    struct lk__chunk *chunk;
    int64_t bytes; /* of its class */
    int holds;
    int class;
} lk__block;

typedef struct lk__chunk {
    struct lk__chunk *next;
    struct lk__storage *storage; /* counts the views that the program has of it */
    int64_t size, used;
} lk__chunk;

typedef struct lk__memory {
    lk__chunk *first, *current;
    lk__block *free[LK_N_CLASSES];
    int64_t live, peak, held; /* bytes */
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
