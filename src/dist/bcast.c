/* bcast: y = root's x, everywhere; dx = the sum of all dy on root, 0 elsewhere. */
#include "dist/common/dist.h"
#include "dist/common/sample_shapes.h"

lk_status lk_dist_bcast(lk_comm *comm, lk_var x, int root, const char *name, lk_var *out)
{
    lk__dist d = lk__dist_of(comm, LK_REDUCE_SUM, root, name);
    LK_CHECK(out, LK_EINVAL, "bcast: out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_DIST(comm, lk__dist_check(&d, "bcast", x));
    lk__dist_shaped(&d, lk_shape_of(x), -1);
    LK_TRY_DIST(comm, lk_apply(x.tape, &lk__dist_bcast, &x, 1, &d, out));
    return LK_OK;
}

/* ---- samples ---- */

static lk_status bcast_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    return LK_TRACE(lk_dist_bcast(comm, in[0], lk_dist_root(s, comm), "check", out));
}

const lk_dist_check lk__dist_check_bcast = {
    .name = "bcast",
    .summary = "y = root's x; dx = the sum of dy, on root",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("from the first", shape_same, bcast_sample)},
        {LINEAR_SAMPLE("from the last", shape_same, bcast_sample), .root = -1},
        {LINEAR_SAMPLE("from the second", shape_same, bcast_sample), .root = 1},
        {0}}};
