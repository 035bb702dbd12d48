/* reduce_scatter: y = this rank's part along an axis of the sum of all x; dx = the dy of all ranks one
 * behind the other. */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"

lk_status lk_dist_reduce_scatter(lk_comm *comm, lk_var x, int axis, int64_t count, const char *name,
                                 lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    lk_var front, counts;
    int64_t sum;
    LK_CHECK(out, LK_EINVAL, "reduce_scatter: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(comm, lk__dist_check(&d, "reduce_scatter", x));
    lk__dist_shaped(&d, lk_shape_of(x), -1);
    lk__dist_noted(&d, "axis", axis);
    LK_CHECK(count >= 0, LK_EINVAL, "reduce_scatter: count is %lld", (long long)count);
    LK_TRY_DIST(comm, lk__dist_front("reduce_scatter", x, axis, &front));
    LK_TRY_DIST(comm, lk__dist_counts(&d, x.tape, count, &sum, &counts));
    LK_TRY_DIST(comm,
                lk__dist_adds_up("reduce_scatter", lk_dtype_of(x), lk_shape_of(x), axis, sum));
    LK_TRY_DIST(
        comm, lk_apply(x.tape, &lk__dist_reduce_scatter, (lk_var[]){front, counts}, 2, &d, &front));
    LK_TRY_DIST(comm, lk__dist_back(front, axis, out));
    return LK_OK;
}

/* ---- samples ---- */

static lk_status reduce_scatter_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                       lk_var *out)
{
    return LK_TRACE(
        lk_dist_reduce_scatter(comm, in[0], s->axis, asked(lk_comm_rank(comm)), "check", out));
}

const lk_dist_check lk__dist_check_reduce_scatter = {
    .name = "reduce_scatter",
    .summary = "y = own part of the sum of x; dx = all dy, one behind the other",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("axis 0, uneven", shape_whole, reduce_scatter_sample)},
        {LINEAR_SAMPLE("axis 1, uneven", shape_whole, reduce_scatter_sample), .axis = 1},
        {LINEAR_SAMPLE("axis 2, uneven", shape_whole, reduce_scatter_sample), .axis = 2},
        {0}}};
