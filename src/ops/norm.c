/* norm: Euclidean, over axes.
 *
 *   y = sqrt(the sum of x^2 over the axes)
 *   dx = x * (dy / y), repeated along the axes; 0 where y = 0
 */
#include "ops/common/axes/axes.h"
#include "ops/common/each.h"
#include "ops/common/grads.h"
#include "tensor/tensor.h"

#include <lockstep/extra/map.h>

/* norm_ratio: r = x / y, 0 where y = 0; dx = norm_ratio(dr, y), dy = -dr * norm_ratio(r, y). */

static lk_status ratio_forward(lk_call *c)
{
    return LK_TRACE(lk__each_run_with(c, LK__LOOP_RATIO, 1, 0));
}

static lk_status ratio_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){dout[0], c->in[1]}, 2, NULL, &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var g;
        LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){c->out[0], c->in[1]}, 2, NULL, &g));
        LK_TRY(lk__neg_mul(dout[0], g, &din[1]));
    }
    return LK_OK;
}

static const lk_op norm_ratio = {
    .name = "norm_ratio",
    .summary = "x / y, 0 where y = 0",
    LK_ARITY(2, 1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 2,
    .infer = lk__each_infer,
    .forward = ratio_forward,
    .backward = ratio_backward,
};

static lk_status norm_forward(lk_call *c)
{
    const lk_tensor *y = c->y[0];
    void *at = lk__tensor_start(y);
    LK_TRY(lk__axes_forward(c));
    return LK_TRACE(lk_map1(y->dtype, LK_MAP1_SQRT, 0, y->count, at, at));
}

static lk_status norm_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var r;
    LK_TRY(lk_apply(c->tape, &norm_ratio, (lk_var[]){dout[0], c->out[0]}, 2, NULL, &r));
    LK_TRY(lk__axes_widen(c, r, &r));
    return LK_TRACE(
        lk_apply_gradient(c, 0, &lk__op_mul, (lk_var[]){c->in[0], r}, 2, NULL, &din[0]));
}

const lk_op lk__op_norm = {
    .name = "norm",
    .summary = "sqrt(the sum of x^2 over axes)",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk_axes),
    .saves_in = 1,
    .infer = lk__axes_infer,
    .forward = norm_forward,
    .backward = norm_backward,
    .data = &(const lk_reduce_axis_op){LK_REDUCE_AXIS_SUMSQ},
    .samples = lk__axes_samples,
};

lk_status lk_norm(lk_var x, const lk_axes *axes, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_norm, &x, 1, axes ? axes : &lk__all_axes, out));
}
