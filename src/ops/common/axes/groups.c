/* Groups of elements. */
#include "ops/common/axes/groups.h"

#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"

lk__reduction_groups lk__groups_of(lk_shape shape, unsigned bits)
{
    lk__reduction_groups g = {.n = lk__axes_count(shape, bits)};
    int64_t stride = 1;
    for (int d = shape.ndim - 1; d >= 0; d--) {
        lk__group_axes *a = bits >> d & 1 ? &g.reduced : &g.kept;
        int last = a->ndim - 1;
        if (last >= 0 && lk__times(a->stride[last], a->dim[last]) == stride) {
            a->dim[last] = lk__times(a->dim[last], shape.dim[d]);
        } else {
            a->dim[a->ndim] = shape.dim[d];
            a->stride[a->ndim++] = stride;
        }
        stride = lk__times(stride, shape.dim[d]);
    }
    return g;
}
