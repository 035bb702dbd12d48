/* allreduce, chain: as `shared`, but joined in the order of the ranks, one after the other.
 *
 *     4 ranks     ((0 + 1) + 2) + 3        the tree of `shared`: (0 + 1) + (2 + 3)
 *
 * What an allreduce costs that does not care for its order: to measure the fixed tree against, never
 * chosen.  With three ranks and fewer both are the same.
 *
 * Cost: that of `shared`.
 */
#include "coll/inplace.h"

static lk_status chain_advance(lk_request *r)
{
    lk__shm_call *c = (lk__shm_call *)r;
    if (c->program != &c->own || c->own.pieces != 0) {
        c->own.n_leaves = c->program->n_leaves;
        lk__program_chain(&c->own);
        c->program = &c->own;
    }
    return lk__inplace_advance(r);
}

static lk_status chain_start(const lk__coll_args *k, int number, lk_request **out)
{
    LK_TRY(lk__shm_area_start(k, number, chain_advance, out));
    return LK_OK;
}

const lk__coll lk__coll_allreduce_chain = {
    .call = LK_CALL_ALLREDUCE,
    .name = "chain",
    .summary = "in shared memory, rank by rank, to measure the tree against",
    .benchmark_only = true,
    .needs = "2 to 16 ranks of one node with a subtree each, not f16 and bf16",
    .eligible = lk__inplace_eligible,
    .cost = lk__inplace_cost,
    .start = chain_start};
