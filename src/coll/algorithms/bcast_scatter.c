/* bcast, scatter: the root sends each rank its share, and the shares travel round the ring.
 *
 *     place = rank - root     the root has all shares already; it only passes on
 *
 * Any count.  Cost: (2 P - 2) alpha + 2 (P-1)/P n beta: half the bytes of `binomial` from 8 ranks on.
 */
#include "coll/schedule.h"

static double scatter_cost(const lk__coll_args *k, const lk__rates *r)
{
    double others = k->size - 1;
    return 2 * others * r->alpha + 2 * others / k->size * (double)k->bytes * r->beta;
}

/* The share of a place. */
static unsigned char *share_of(const lk__coll_args *k, int place, int64_t *bytes)
{
    lk_range run = lk_range_split(k->c.count, place, k->size);
    *bytes = run.n * k->elem;
    return (unsigned char *)k->c.out + run.first * k->elem;
}

static lk_status scatter_schedule(const lk__coll_args *k, lk__schedule *s)
{
    int size = k->size, root = k->c.root, place = (k->rank - root + size) % size;
    int next = (k->rank + 1) % size, before = (k->rank - 1 + size) % size;
    int64_t n;
    if (place == 0)
        for (int p = 1; p < size; p++) {
            unsigned char *share = share_of(k, p, &n);
            LK_TRY(lk__schedule_send(s, (p + root) % size, share, n));
        }
    else {
        unsigned char *share = share_of(k, place, &n);
        LK_TRY(lk__schedule_recv(s, root, share, n));
        LK_TRY(lk__schedule_wait(s));
    }
    for (int step = 0; step < size - 1; step++) {
        unsigned char *give = share_of(k, (place - step + size) % size, &n);
        if (place != size - 1) /* the next one is not the root */
            LK_TRY(lk__schedule_send(s, next, give, n));
        unsigned char *get = share_of(k, (place - 1 - step + size) % size, &n);
        if (place != 0)
            LK_TRY(lk__schedule_recv(s, before, get, n));
        LK_TRY(lk__schedule_wait(s));
    }
    return LK_OK;
}

const lk__coll lk__coll_bcast_scatter = {.call = LK_CALL_BCAST,
                                         .name = "scatter",
                                         .summary = "a share for each rank, then round the ring",
                                         .cost = scatter_cost,
                                         .schedule = scatter_schedule};
