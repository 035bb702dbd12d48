/* argmax: where the largest element over axes is.
 *
 *   y = the position, among the reduced elements in row-major order, of the first one that is the
 *       largest (or NaN); i64, without a gradient
 */
#include "ops/common/axes/axes.h"
#include "ops/common/axes/extreme.h"
#include "ops/common/ops.h"

static lk_status argmax_forward(lk_call *c)
{
    return LK_TRACE(lk__extreme_find(c, false));
}

const lk_op lk__op_argmax = {
    .name = "argmax",
    .summary = "the position of the first largest element over axes, i64",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk_axes),
    .infer = lk__extreme_infer,
    .forward = argmax_forward,
};

lk_status lk_argmax(lk_var x, const lk_axes *axes, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_argmax, &x, 1, axes ? axes : &lk__all_axes, out));
}
