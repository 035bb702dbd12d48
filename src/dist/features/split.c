/* lk_feature_split: which blocks each rank has, and the features of an axis that follow.  A trainer makes
 * one from its mesh, a host from its communicator, on each rank; the nodes on split features read it, on
 * the communicator's thread.
 */
#include "dist/common/features.h"
#include "dist/common/pending.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

static lk_status split_check(const lk_comm *comm, int rank, int size, int64_t blocks,
                             int64_t least_block)
{
    LK_CHECK(rank >= 0 && rank < size, LK_EINVAL, "rank %d of %d along features", rank, size);
    LK_CHECK(blocks >= size && blocks <= INT32_MAX, LK_EINVAL,
             "%lld block%s of features for %d ranks: there must be at least as many blocks, and "
             "less than 2^31",
             (long long)blocks, blocks == 1 ? "" : "s", size);
    LK_CHECK(least_block >= 1, LK_EINVAL, "blocks of at least %lld features: 1 is the least",
             (long long)least_block);
    LK_CHECK(!comm || (size == lk_comm_size(comm) && rank == lk_comm_rank(comm)), LK_EINVAL,
             "rank %d of %d along features is rank %d of %d of the communicator", rank, size,
             comm ? lk_comm_rank(comm) : 0, comm ? lk_comm_size(comm) : 0);
    return LK_OK;
}

lk_status lk__feature_split_make(lk_comm *comm, int rank, int size, int64_t blocks,
                                 int64_t least_block, lk_feature_split **out)
{
    lk_status st;
    int64_t *first = NULL;
    LK_TRY(split_check(comm, rank, size, blocks, least_block));
    LK_TRY(lk_alloc(&first, size + 1, sizeof *first));
    LK_TRY_TO(done, lk_alloc_zero(out, 1, sizeof **out));
    lk_subtree_partition(blocks, size, first);
    **out = (lk_feature_split){.blocks = blocks,
                               .least_block = least_block,
                               .rank = rank,
                               .size = size,
                               .first = first,
                               .held = {first[rank], first[rank + 1] - first[rank]},
                               .comm = size > 1 ? comm : NULL};
    return LK_OK;
done:
    lk_free(first);
    return st;
}

lk_status lk_feature_split_new(lk_comm *comm, int rank, int size, int64_t blocks,
                               int64_t least_block, lk_feature_split **out)
{
    lk_feature_split *split = NULL;
    lk_status st = LK_OK;
    if (out)
        *out = NULL;
    else
        st = LK_RAISE(LK_EINVAL, "out is NULL");
    if (st == LK_OK)
        st = lk__feature_split_make(comm, rank, size, blocks, least_block, &split);
    st = lk_agree(comm, st);
    if (st != LK_OK || !out) {
        lk_feature_split_free(split);
        return st;
    }
    *out = split;
    return LK_OK;
}

void lk_feature_split_free(lk_feature_split *split)
{
    if (!split)
        return;
    lk_free((void *)(uintptr_t)split->first);
    lk_free(split);
}

/* ---- axes ---- */

int64_t lk__feature_block(const lk_feature_split *split, int64_t n)
{
    return lk_block_size(n, split->blocks, split->least_block);
}

bool lk_feature_is_cut(const lk_feature_split *split, int64_t n)
{
    return lk__feature_block(split, n) < n;
}

lk_range lk_feature_range(const lk_feature_split *split, int rank, int64_t n)
{
    int64_t size = lk__feature_block(split, n);
    if (size >= n)
        return (lk_range){0, n};
    lk_range blocks = {split->first[rank], split->first[rank + 1] - split->first[rank]};
    return lk_block_range(n, size, blocks);
}

bool lk__feature_travels(const lk_feature_split *split, int64_t n)
{
    return split->size > 1 && lk_feature_is_cut(split, n);
}

/* ---- calls ---- */

lk_status lk__feature_begin(const lk_feature_split *split, const char *call, lk_var x, lk_var *out)
{
    LK_CHECK(split && out, LK_EINVAL, "%s: %s is NULL", call, split ? "out" : "split");
    *out = LK_NO_VAR;
    LK_CHECK(split->comm || split->size == 1 || split->rehearses, LK_ESTATE,
             "%s: a split over %d ranks without a communicator has a part of the features alone: "
             "give lk_feature_split_new() the ranks' communicator",
             call, split->size);
    LK_TRY_DIST(split->comm, lk__dist_valid(call, x));
    if (split->comm)
        LK_TRY_DIST(split->comm, lk__dist_uses(x.tape, split->comm, call));
    return LK_OK;
}

lk_status lk__feature_check(const lk_call *c, const char *what, const lk_tensor *t, int64_t n)
{
    int last = t->shape.ndim - 1;
    LK_CHECK(lk_dtype_is_real(t->dtype), LK_EDTYPE, "%s: %s is %s, where it can be f32 or f64",
             c->op->name, what, lk_tensor_text(t).s);
    LK_CHECK(last >= 0 && t->shape.dim[last] == n, LK_ESHAPE,
             "%s: %s is %s, where this rank has %lld features along the last axis", c->op->name,
             what, lk_tensor_text(t).s, (long long)n);
    return LK_OK;
}

lk__feature_node lk__feature_of(const lk_feature_split *split, int64_t n, int64_t of,
                                const char *name)
{
    lk__feature_node a;
    memset(&a, 0, sizeof a); /* attributes are compared as bytes */
    a.d = lk__dist_of(split->comm, LK_REDUCE_SUM, 0, name);
    a.split = split;
    a.n = n;
    a.of = of;
    return a;
}

lk_status lk__feature_adjoint(const lk__feature_node *a, const char *op, lk__feature_node *out)
{
    *out = *a;
    if (a->d.comm)
        LK_TRY(lk__dist_adjoint(&a->d, op, LK_REDUCE_SUM, &out->d));
    return LK_OK;
}
