/* Axes that attributes name. */
#include "ops/common/axes.h"

lk_status lk__axis_check(const lk_call *c, int axis)
{
    lk_shape shape = lk_tensor_shape(c->x[0]);
    LK_CHECK(axis >= 0 && axis < shape.ndim, LK_EINVAL, "%s along axis %d of %s", c->op->name, axis,
             lk_tensor_text(c->x[0]).s);
    return LK_OK;
}
