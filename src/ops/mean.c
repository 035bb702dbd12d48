/* mean: over axes.
 *
 *   y = (the sum of x over the axes) / n, n the number of elements in a sum
 *   dx = dy / n, repeated along the axes
 */
#include "ops/common/axes/axes.h"
#include "ops/common/each.h"
#include "tensor/tensor.h"

/* over: x / n for a fixed number; dx = dy / n. */

static lk_status over_forward(lk_call *c)
{
    return LK_TRACE(lk__each_run_with(c, LK__LOOP_OVER, (double)*(const int64_t *)c->attr, 0));
}

static lk_status over_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, c->op, dout, 1, c->attr, din));
}

static const lk_op over = {
    .name = "over",
    .summary = "x / n",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_EACH_FLAGS,
    .attr_size = sizeof(int64_t),
    .infer = lk__each_infer,
    .forward = over_forward,
    .backward = over_backward,
};

lk_status lk__mean_over(lk_var x, int64_t n, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &over, &x, 1, &n, out));
}

static lk_status mean_forward(lk_call *c)
{
    const lk_tensor *x = c->x[0], *y = c->y[0];
    unsigned axes = lk__axes_bits(c->attr, x->shape.ndim);
    void *sum;
    LK_TRY(lk_call_scratch(c, y->count * (int64_t)lk_dtype_size(y->dtype), &sum));
    LK_TRY(lk__reduce_axes(c, LK_REDUCE_AXIS_SUM, x, axes, sum));
    lk__operands o = {.n = y->count,
                      .x = {sum},
                      .y = lk__tensor_start(y),
                      .p = {(double)lk__axes_count(x->shape, axes)}};
    return LK_TRACE(lk__each_one(y->dtype, LK__LOOP_OVER, LK_EACH_STORE, &o));
}

static lk_status mean_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var g;
    lk_shape x = lk_shape_of(c->in[0]);
    int64_t n = lk__axes_count(x, lk__axes_bits(c->attr, x.ndim));
    LK_TRY(lk__mean_over(dout[0], n, &g));
    LK_TRY(lk__axes_widen(c, g, &g));
    return LK_TRACE(lk_broadcast(g, x, &din[0]));
}

const lk_op lk__op_mean = {
    .name = "mean",
    .summary = "the sum over axes divided by the number of elements",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(lk_axes),
    .infer = lk__axes_infer,
    .forward = mean_forward,
    .backward = mean_backward,
    .samples = lk__axes_samples,
};

lk_status lk_mean(lk_var x, const lk_axes *axes, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_mean, &x, 1, axes ? axes : &lk__all_axes, out));
}
