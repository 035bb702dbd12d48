/* lk_dist_batch: the shards of a rank, and sums over those of all. */
#include "dist/common/batch.h"

#include <lockstep/coll.h>
#include <lockstep/op.h>

/* The shards of this rank. */
static lk_range range_of(const lk_dist_batch *b)
{
    int rank = lk_comm_rank(b->comm), size = lk_comm_size(b->comm);
    if (b->shards == 0)
        return lk_range_split(size, rank, size);
    if (!b->first)
        return lk_range_split(b->shards, rank, size);
    return (lk_range){b->first[rank], b->first[rank + 1] - b->first[rank]};
}

bool lk__batch_is_first(const lk_dist_batch *b)
{
    lk_range range = range_of(b);
    return range.first == 0 && range.n > 0;
}

lk_status lk__batch_join(const lk_dist_batch *b, lk_dtype dtype, int64_t n, void *sums,
                         const char *name)
{
    lk_collective call = {.call = LK_CALL_ALLREDUCE,
                          .name = name,
                          .out = sums,
                          .count = n,
                          .dtype = dtype,
                          .op = LK_REDUCE_SUM,
                          .pieces = b->shards,
                          .first = b->first};
    return LK_TRACE(lk_coll_run(b->comm, &call));
}

lk_status lk__batch_check(const lk_dist_batch *b, lk_var x)
{
    lk_range range = range_of(b);
    int64_t piece = lk_tape_shard_size(x.tape), samples = lk_shape_of(x).dim[0];
    LK_CHECK(b->samples >= 1 && b->shards >= 0, LK_EINVAL,
             "batch_norm: a batch of %lld samples in %lld shards", (long long)b->samples,
             (long long)b->shards);
    if (b->shards == 0)
        return LK_OK;
    LK_CHECK(lk_range_subtrees(b->shards, range, NULL) <= 1, LK_EINVAL,
             "batch_norm: shards %lld to %lld of %lld are not one subtree", (long long)range.first,
             (long long)(range.first + range.n - 1), (long long)b->shards);
    int64_t from = range.first * piece, end = (range.first + range.n) * piece;
    end = end < b->samples ? end : b->samples;
    LK_CHECK(samples == (range.n > 0 ? end - from : 0), LK_ESHAPE,
             "batch_norm of %lld samples, where this rank has the shards %lld to %lld, of %lld "
             "samples each, of a batch of %lld",
             (long long)samples, (long long)range.first, (long long)(range.first + range.n - 1),
             (long long)piece, (long long)b->samples);
    return LK_OK;
}
