/* sum: over axes.
 *
 *   y = the sum of x over the axes; lanes within a piece, pieces of the batch by the fixed tree
 *   dx = dy, repeated along the axes
 */
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"

static lk_status sum_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var g;
    LK_TRY(lk__axes_widen(c, dout[0], &g));
    return LK_TRACE(lk_broadcast(g, lk_shape_of(c->in[0]), &din[0]));
}

const lk_op lk__op_sum = {
    .name = "sum",
    .summary = "the sum over axes",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(lk_axes),
    .infer = lk__axes_infer,
    .forward = lk__axes_forward,
    .backward = sum_backward,
    .data = &(const lk_reduce_axis_op){LK_REDUCE_AXIS_SUM},
    .samples = lk__axes_samples,
};

lk_status lk_sum(lk_var x, const lk_axes *axes, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_sum, &x, 1, axes ? axes : &lk__all_axes, out));
}
