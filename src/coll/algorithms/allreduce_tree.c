/* allreduce, tree: the fixed tree itself, then a broadcast.
 *
 * A subtree of the pieces is computed by the rank that holds its first piece: it has the
 * lower half and receives the upper half, whole vectors, from the rank that holds that one's first
 * piece.  Subtrees within one rank's range are its own input.
 *
 *     6 pieces on 3 ranks    [0 1] [2 3] [4 5]      rank 0: (0+1), joins (2+3) from rank 1,
 *                                                           joins (4+5) from rank 2; broadcasts
 *
 * Any number of ranks, any number of pieces and any ranges; not f16 and bf16.  A rank without pieces
 * takes part in the broadcast alone.
 *
 * Cost: about (d + ceil(log2 P)) (alpha + n beta) + d n gamma, where d = ceil(log2 pieces) + 1, but
 * no more than the joins that cross ranks; bandwidth is log2 P times the optimum, so it is for short
 * vectors.
 */
#include "coll/schedule.h"

static double tree_cost(const lk__coll_args *k, const lk__rates *r)
{
    double rounds = lk__coll_args_rounds(k), n = (double)k->bytes;
    return rounds * (2 * r->alpha + 2 * n * r->beta + n * r->gamma);
}

static lk_status tree_schedule(const lk__coll_args *k, lk__schedule *s)
{
    LK_TRY(lk__schedule_up(s, k, k->c.count, k->c.out));
    return LK_TRACE(lk__schedule_bcast(s, k, lk__coll_args_holder(k, 0), k->c.out, k->bytes));
}

const lk__coll lk__coll_allreduce_tree = {.call = LK_CALL_ALLREDUCE,
                                          .name = "tree",
                                          .summary = "whole vectors up the fixed tree, then down",
                                          .needs = "any dtype but f16 and bf16",
                                          .eligible = lk__tree_eligible,
                                          .cost = tree_cost,
                                          .schedule = tree_schedule};
