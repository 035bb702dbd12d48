/* gather: y = the x of all ranks along an axis, on root; dx = this rank's part of root's dy. */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"

lk_status lk_dist_gather(lk_comm *comm, lk_var x, int axis, int root, const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, root, name);
    lk_var front, counts;
    LK_CHECK(out, LK_EINVAL, "gather: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(comm, lk__dist_check(&d, "gather", x));
    lk__dist_shaped(&d, lk_shape_of(x), axis);
    LK_TRY_DIST(comm, lk__dist_front("gather", x, axis, &front));
    LK_TRY_DIST(comm, lk__dist_counts(&d, x.tape, lk_shape_of(front).dim[0], NULL, &counts));
    LK_TRY_DIST(comm, lk_apply(x.tape, &lk__dist_gather, (lk_var[]){front, counts}, 2, &d, &front));
    LK_TRY_DIST(comm, lk__dist_back(front, axis, out));
    return LK_OK;
}

/* ---- samples ---- */

static lk_status gather_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                               lk_var *out)
{
    return LK_TRACE(lk_dist_gather(comm, in[0], s->axis, lk_dist_root(s, comm), "check", out));
}

const lk_dist_check lk__dist_check_gather = {
    .name = "gather",
    .summary = "y = all x, one behind the other, on root; dx = own part of root's dy",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("axis 0, uneven, to the first", shape_ragged, gather_sample)},
        {LINEAR_SAMPLE("axis 1, uneven, to the last", shape_ragged, gather_sample), .axis = 1,
         .root = -1},
        {LINEAR_SAMPLE("axis 2, uneven, to the second", shape_ragged, gather_sample), .axis = 2,
         .root = 1},
        {0}}};
