/* allreduce, dummy: nothing is sent; each rank gets its own vector.  It shows what a program takes
 * without communication.
 *
 * Cost: one copy.
 */
#include "coll/schedule.h"

static double dummy_cost(const lk__coll_args *k, const lk__rates *r)
{
    return (double)k->bytes * r->gamma;
}

static lk_status dummy_schedule(const lk__coll_args *k, lk__schedule *s)
{
    return k->n_vectors > 0 ? lk__schedule_copy(s, k->c.out, lk__coll_args_in(k), k->bytes) : LK_OK;
}

const lk__coll lk__coll_allreduce_dummy = {.call = LK_CALL_ALLREDUCE,
                                           .name = "dummy",
                                           .summary = "no communication, to measure against",
                                           .benchmark_only = true,
                                           .cost = dummy_cost,
                                           .schedule = dummy_schedule};
