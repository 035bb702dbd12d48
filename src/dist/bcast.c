/* bcast: y = root's x, everywhere; dx = the sum of all dy on root, 0 elsewhere. */
#include "dist/common/dist.h"

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
