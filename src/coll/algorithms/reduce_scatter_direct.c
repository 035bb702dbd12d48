/* reduce_scatter, direct: each rank sends each other its counts of all vectors (shares.c).
 *
 * Any number of ranks, pieces, counts and any type.
 *
 * Cost: (P-1) alpha + (P-1)/P m n beta + m n gamma, n bytes in all and m the vectors a rank gives.
 */
#include "coll/schedule.h"

static double direct_cost(const lk__coll_args *k, const lk__rates *r)
{
    double others = k->size - 1, n = (double)(k->extent * k->elem);
    double m = (double)k->pieces < k->size ? 1 : (double)lk__coll_args_subtrees(k, 0, NULL, 0);
    return others * r->alpha + others / k->size * n * m * r->beta + m * n * r->gamma;
}

static lk_status direct_schedule(const lk__coll_args *k, lk__schedule *s)
{
    return LK_TRACE(lk__schedule_shares(s, k, k->c.out));
}

const lk__coll lk__coll_reduce_scatter_direct = {.call = LK_CALL_REDUCE_SCATTER,
                                                 .name = "direct",
                                                 .summary = "each rank joins its share",
                                                 .cost = direct_cost,
                                                 .schedule = direct_schedule};
