/* The axis of softmax and log_softmax. */
#include "ops/common/softmax.h"

#include "ops/common/ops.h"
#include "tensor/tensor.h"

lk_status lk__softmax_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    LK_TRY(lk__same_infer(c, out));
    int axis = lk__softmax_axis(c, x->shape.ndim);
    LK_CHECK(axis >= 0 && axis < x->shape.ndim, LK_EINVAL,
             "%s of %s along axis %d, which it has not", c->op->name, lk_tensor_text(x).s,
             ((const lk_softmax_attr *)c->attr)->axis);
    return LK_OK;
}

lk_status lk__softmax_sum(const lk_call *c, lk_var x, lk_var *out)
{
    lk_shape shape = lk_shape_of(x);
    shape.dim[lk__softmax_axis(c, shape.ndim)] = 1;
    LK_TRY(lk_sum_to(x, shape, out));
    return LK_OK;
}
