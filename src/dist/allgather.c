/* allgather: y = the x of all ranks along an axis, everywhere; dx = this rank's part of the sum of
 * all dy. */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"

lk_status lk_dist_allgather(lk_comm *comm, lk_var x, int axis, const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, 0, name);
    lk_var front, counts;
    LK_CHECK(out, LK_EINVAL, "allgather: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(comm, lk__dist_check(&d, "allgather", x));
    lk__dist_shaped(&d, lk_shape_of(x), axis);
    LK_TRY_DIST(comm, lk__dist_front("allgather", x, axis, &front));
    LK_TRY_DIST(comm, lk__dist_counts(&d, x.tape, lk_shape_of(front).dim[0], NULL, &counts));
    LK_TRY_DIST(comm,
                lk_apply(x.tape, &lk__dist_allgather, (lk_var[]){front, counts}, 2, &d, &front));
    LK_TRY_DIST(comm, lk__dist_back(front, axis, out));
    return LK_OK;
}

/* ---- samples ---- */

static lk_status allgather_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                  lk_var *out)
{
    return LK_TRACE(lk_dist_allgather(comm, in[0], s->axis, "check", out));
}

const lk_dist_check lk__dist_check_allgather = {
    .name = "allgather",
    .summary = "y = all x, one behind the other; dx = own part of the sum of dy",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("axis 0, uneven", shape_ragged, allgather_sample)},
        {LINEAR_SAMPLE("axis 1, uneven", shape_ragged, allgather_sample), .axis = 1},
        {LINEAR_SAMPLE("axis 2, uneven", shape_ragged, allgather_sample), .axis = 2},
        {0}}};
