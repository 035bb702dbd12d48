/* Together: with more ranks than cores, the last one that comes does the work of all.
 *
 *     rank 0, 1, 2   arrive, sleep                          wake up: it is done
 *     rank 3         arrives last, joins, stores, posts ──┘
 *
 * If each did its share, all would have to run twice: to arrive, and for their share.  A switch between
 * processes takes longer than to join a short vector.  Who is the last is counted on the desk of rank
 * 0; the count goes on from call to call, for a rank comes again only after all have come.
 */
#ifndef LK_COLL_TOGETHER_H
#define LK_COLL_TOGETHER_H

#include "coll/arena.h"

enum { LK_TOGETHER_BYTES = 512 * 1024 }; /* of all vectors */

/** Whether it is done this way: the same on all ranks. */
static inline bool lk__together(const lk__arena_call *c)
{
    return c->request.comm->w->spins == 0 && c->bytes * c->arena->n <= LK_TOGETHER_BYTES;
}

/** Come, before this rank posts that it has arrived. */
static inline void lk__together_come(const lk__arena_call *c)
{
    lk__desk *desk = c->arena->desk[0];
    uint64_t n = (uint64_t)c->arena->n;
    if ((atomic_fetch_add(&desk->come.value, 1) + 1) % n == 0)
        atomic_store_explicit(&desk->joiner.value, (uint64_t)c->arena->me, memory_order_relaxed);
}

/** Who came last; all have arrived. */
static inline int lk__together_joiner(const lk__arena_call *c)
{
    return (int)atomic_load_explicit(&c->arena->desk[0]->joiner.value, memory_order_relaxed);
}

#endif /* LK_COLL_TOGETHER_H */
