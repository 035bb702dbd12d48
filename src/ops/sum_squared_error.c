/* sum_squared_error: of x and targets t, for each element
 *
 *   l  = 1/2 (x - t)^2
 *   dx = (x - t) dl, dt = -dx
 *
 * and then, unless the attribute says otherwise, the sum over all elements; see common/loss.h.
 */
#include "ops/common/loss/loss.h"
#include "ops/common/ops.h"

const lk_op lk__op_sum_squared_error = {
    .name = "sum_squared_error",
    .summary = "sum of 1/2 (x - t)^2 over all elements",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_loss_attr),
    .saves_in = 3,
    .infer = lk__loss_infer_pair,
    .forward = lk__squared_forward,
    .backward = lk__squared_backward,
    .data = &(const lk__squared){0.5, LK_LOSS_SUM},
    .samples = lk__squared_samples,
};

lk_status lk_sum_squared_error(lk_var x, lk_var target, lk_loss_reduction reduction, lk_var *out)
{
    lk_loss_attr attr = {reduction};
    lk_var in[] = {x, target};
    return LK_TRACE(lk_apply(x.tape, &lk__op_sum_squared_error, in, 2, &attr, out));
}
