/* Last arriver: with more ranks than cores, the last rank that arrives does the work of all.
 *
 *     rank 0, 1, 2   arrive, sleep                          wake up: it is done
 *     rank 3         arrives last, joins, stores, tells ──┘
 *
 * If each did its share, all would have to run twice: to arrive, and for their share.  A switch between
 * processes takes longer than to join a short vector.  Who is the last is counted in the area of rank
 * 0; the count goes on from call to call, for a rank arrives again only after all have arrived.
 */
#ifndef LK_COLL_LAST_ARRIVER_H
#define LK_COLL_LAST_ARRIVER_H

#include "coll/shm/area.h"

enum { LK_LAST_ARRIVER_BYTES = 512 * 1024 }; /* of all vectors */

/** Whether it is done this way: the same on all ranks. */
static inline bool lk__last_arriver_joins(const lk__shm_call *c)
{
    return c->request.comm->w->spins == 0 && c->bytes * c->area->n <= LK_LAST_ARRIVER_BYTES;
}

/** Arrive, before this rank publishes that it has. */
static inline void lk__last_arriver_arrive(const lk__shm_call *c)
{
    lk__rank_area *area = c->area->rank[0];
    uint64_t n = (uint64_t)c->area->n;
    if ((atomic_fetch_add(&area->arrived.value, 1) + 1) % n == 0)
        atomic_store_explicit(&area->last_arriver.value, (uint64_t)c->area->me,
                              memory_order_relaxed);
}

/** Who arrived last, once all have. */
static inline int lk__last_arriver_rank(const lk__shm_call *c)
{
    return (int)atomic_load_explicit(&c->area->rank[0]->last_arriver.value, memory_order_relaxed);
}

#endif /* LK_COLL_LAST_ARRIVER_H */
