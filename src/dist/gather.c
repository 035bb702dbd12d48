/* gather: y = the x of all ranks along an axis, on root; dx = this rank's part of root's dy. */
#include "dist/common/dist.h"

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
