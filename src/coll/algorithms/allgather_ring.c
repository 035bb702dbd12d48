/* allgather, ring: every rank passes on to the next one what it got from the one before.
 *
 *     step k    rank r sends the part of rank r - k to r + 1, and receives that of r - 1 - k
 *
 * Any counts; each rank talks to its two neighbours only.  Cost: (P-1) alpha + (P-1)/P n beta, as
 * `direct`, but never more than one message a rank at a time.
 */
#include "coll/schedule.h"

static double ring_cost(const lk__coll_args *k, const lk__rates *r)
{
    return (k->size - 1) * r->alpha * 1.5 + (double)(k->extent * k->elem) * r->beta;
}

static lk_status ring_schedule(const lk__coll_args *k, lk__schedule *s)
{
    unsigned char *out = k->c.out;
    int size = k->size, next = (k->rank + 1) % size, before = (k->rank - 1 + size) % size;
    if (k->c.in)
        LK_TRY(lk__schedule_copy(s, out + k->offsets[k->rank] * k->elem, k->c.in,
                                 k->counts[k->rank] * k->elem));
    for (int step = 0; step < size - 1; step++) {
        int give = (k->rank - step + size) % size, get = (before - step + size) % size;
        LK_TRY(lk__schedule_send(s, next, out + k->offsets[give] * k->elem,
                                 k->counts[give] * k->elem));
        LK_TRY(lk__schedule_recv(s, before, out + k->offsets[get] * k->elem,
                                 k->counts[get] * k->elem));
        LK_TRY(lk__schedule_wait(s));
    }
    return LK_OK;
}

const lk__coll lk__coll_allgather_ring = {.call = LK_CALL_ALLGATHER,
                                          .name = "ring",
                                          .summary = "parts travel round the ring",
                                          .cost = ring_cost,
                                          .schedule = ring_schedule};
