/* min: the smallest element over axes.
 *
 *   y = the smallest element of x; NaN if one is NaN, inf of nothing
 *   dx = dy at the first place in row-major order that has the smallest element (or a NaN), else 0
 */
#include "ops/common/axes.h"
#include "ops/common/extreme.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

static lk_status min_forward(lk_call *c)
{
    unsigned axes = lk__axes_bits(c->attr, c->x[0]->shape.ndim);
    LK_TRY(lk__reduce_axes(c, LK_REDUCE_AXIS_MIN, c->x[0], axes, lk__tensor_start(c->y[0])));
    return LK_OK;
}

static lk_status min_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    LK_TRY(lk__extreme_backward(c, true, dout[0], &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_min;

lk_status lk_min(lk_var x, const lk_axes *axes, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_min, &x, 1, axes ? axes : &lk__all_axes, out));
    return LK_OK;
}

const lk_op lk__op_min = {
    .name = "min",
    .summary = "the smallest element over axes; the gradient goes to the first of equal ones",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_size = sizeof(lk_axes),
    .saves_in = 1,
    .infer = lk__axes_infer,
    .forward = min_forward,
    .backward = min_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &lk__all_axes},
                                      {.n_in = 1,
                                       .in = {LK_IN(5, 2, 3)},
                                       .attr = &(lk_axes){.n = 2, .axis = {0, 2}, .keep = true},
                                       .shard_size = 2},
                                      {.n_in = 1,
                                       .in = {LK_IN(2, 4, 3)},
                                       .attr = &(lk_axes){1, {1}, false}},
                                      {0}},
};
