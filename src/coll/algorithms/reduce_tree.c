/* reduce, tree: whole vectors up the fixed tree, which allreduce_tree.c draws, to the rank that holds piece
 * 0; it sends them to the root if that is another rank.
 *
 * Any number of ranks and pieces; not f16 and bf16, which would be rounded on the way.
 *
 * Cost: ceil(log2 P) (alpha + n beta + n gamma), in lk__rates, and alpha + n beta more unless the root holds
 * piece 0.
 */
#include "coll/schedule.h"

static double tree_cost(const lk__coll_args *k, const lk__rates *r)
{
    double n = (double)k->bytes;
    return lk__coll_args_rounds(k) * (r->alpha + n * (r->beta + r->gamma)) +
           (lk__coll_args_holder(k, 0) == k->c.root ? 0 : r->alpha + n * r->beta);
}

static lk_status tree_schedule(const lk__coll_args *k, lk__schedule *s)
{
    int top = lk__coll_args_holder(k, 0);
    unsigned char *out = k->c.out;
    if (k->rank != k->c.root && k->rank == top)
        LK_TRY(lk__schedule_room(s, k->bytes, &out));
    LK_TRY(lk__schedule_up(s, k, k->c.count, out));
    if (top != k->c.root && k->rank == top)
        LK_TRY(lk__schedule_send(s, k->c.root, out, k->bytes));
    if (top != k->c.root && k->rank == k->c.root)
        LK_TRY(lk__schedule_recv(s, top, out, k->bytes));
    return LK_OK;
}

const lk__coll lk__coll_reduce_tree = {.call = LK_CALL_REDUCE,
                                       .name = "tree",
                                       .summary = "whole vectors up the fixed tree",
                                       .needs = "any dtype but f16 and bf16",
                                       .eligible = lk__tree_eligible,
                                       .cost = tree_cost,
                                       .schedule = tree_schedule};
