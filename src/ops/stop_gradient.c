/* stop_gradient: y = x, a view.  There is no gradient: y counts as a constant. */
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <lockstep/op.h>

static lk_status stop_gradient_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0];
    out->dtype = x->dtype;
    out->shape = x->shape;
    out->is_view = true;
    memcpy(out->stride, x->stride, sizeof out->stride);
    return LK_OK;
}

const lk_op lk__op_stop_gradient = {
    .name = "stop_gradient",
    .summary = "x as a constant, a view",
    LK_ARITY(1, 1),
    .flags = LK_OP_STRIDED,
    .infer = stop_gradient_infer,
};

lk_status lk_stop_gradient(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_stop_gradient, &x, 1, NULL, out));
}
