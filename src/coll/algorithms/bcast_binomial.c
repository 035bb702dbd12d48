/* bcast, binomial: who has the data sends it to one who has not, and their number doubles.
 *
 *     place    0 ───────────────► 4            place = rank - root
 *              0 ───────► 2       4 ─────► 6
 *              0 ─► 1     2 ─► 3  4 ─► 5   6 ─► 7
 *
 * Cost: ceil(log2 P) (alpha + n beta).  Any size, any type.
 */
#include "coll/schedule.h"

static double binomial_cost(const lk__coll_args *k, const lk__rates *r)
{
    return lk__coll_args_rounds(k) * (r->alpha + r->beta * (double)k->bytes);
}

static lk_status binomial_schedule(const lk__coll_args *k, lk__schedule *s)
{
    return LK_TRACE(lk__schedule_bcast(s, k, k->c.root, k->c.out, k->bytes));
}

const lk__coll lk__coll_bcast_binomial = {.call = LK_CALL_BCAST,
                                          .name = "binomial",
                                          .summary = "down a binomial tree",
                                          .cost = binomial_cost,
                                          .schedule = binomial_schedule};
