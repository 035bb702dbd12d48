/* max: the largest element over axes.
 *
 *   y = the largest element of x; NaN if one is NaN, -inf of nothing
 *   dx = dy at the first place in row-major order that has the largest element (or a NaN), else 0
 */
#include "ops/common/axes/axes.h"
#include "ops/common/axes/extreme.h"
#include "ops/common/ops.h"

const lk_op lk__op_max = {
    .name = "max",
    .summary = "the largest element over axes; the gradient goes to the first of equal ones",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk_axes),
    .saves_in = 1,
    .infer = lk__axes_infer,
    .forward = lk__axes_forward,
    .backward = lk__extreme_backward,
    .data = &(const lk_reduce_axis_op){LK_REDUCE_AXIS_MAX},
    .samples = lk__axes_samples,
};

lk_status lk_max(lk_var x, const lk_axes *axes, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_max, &x, 1, axes ? axes : &lk__all_axes, out));
}
