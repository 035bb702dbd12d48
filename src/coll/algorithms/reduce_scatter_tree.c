/* reduce_scatter, tree: whole vectors up the fixed tree, whose top sends each rank its part.
 *
 * Any number of ranks and pieces; without offsets, so that the input has no gaps; not f16 and bf16.
 *
 * Cost: ceil(log2 P) (alpha + n beta + n gamma) + (P-1) alpha + n beta: for short vectors.
 */
#include "coll/schedule.h"

static bool tree_eligible(const lk__coll_args *k, const char **why)
{
    if (!lk__tree_eligible(k, why))
        return false;
    *why = "it takes no offsets";
    return !k->c.offsets;
}

static double tree_cost(const lk__coll_args *k, const lk__rates *r)
{
    double n = (double)(k->extent * k->elem);
    return lk__coll_args_rounds(k) * (r->alpha + n * (r->beta + r->gamma)) +
           (k->size - 1) * r->alpha + n * r->beta;
}

static lk_status tree_schedule(const lk__coll_args *k, lk__schedule *s)
{
    int top = lk__coll_args_holder(k, 0);
    unsigned char *all;
    int64_t mine = k->counts[k->rank] * k->elem;
    LK_TRY(lk__schedule_room(s, k->extent * k->elem, &all));
    LK_TRY(lk__schedule_up(s, k, k->extent, all));
    if (k->rank != top)
        return mine > 0 ? lk__schedule_recv(s, top, k->c.out, mine) : LK_OK;
    for (int r = 0; r < k->size; r++)
        if (r != top && k->counts[r] > 0)
            LK_TRY(lk__schedule_send(s, r, all + k->offsets[r] * k->elem, k->counts[r] * k->elem));
    return lk__schedule_copy(s, k->c.out, all + k->offsets[top] * k->elem, mine);
}

const lk__coll lk__coll_reduce_scatter_tree = {.call = LK_CALL_REDUCE_SCATTER,
                                               .name = "tree",
                                               .summary = "up the fixed tree, then a scatter",
                                               .needs = "not f16 and bf16, no offsets",
                                               .eligible = tree_eligible,
                                               .cost = tree_cost,
                                               .schedule = tree_schedule};
