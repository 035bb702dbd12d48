/* mean_squared_error: of x and targets t, for each element
 *
 *   l  = (x - t)^2
 *   dx = 2 (x - t) dl, dt = -dx
 *
 * and then, unless the attribute says otherwise, the mean over all elements; see common/loss.h.
 */
#include "ops/common/loss/loss.h"
#include "ops/common/ops.h"

const lk_op lk__op_mean_squared_error = {
    .name = "mean_squared_error",
    .summary = "mean of (x - t)^2 over all elements",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_loss_attr),
    .saves_in = 3,
    .infer = lk__loss_infer_pair,
    .forward = lk__squared_forward,
    .backward = lk__squared_backward,
    .data = &(const lk__squared){1, LK_LOSS_MEAN},
    .samples = lk__squared_samples,
};

lk_status lk_mean_squared_error(lk_var x, lk_var target, lk_loss_reduction reduction, lk_var *out)
{
    lk_loss_attr attr = {reduction};
    lk_var in[] = {x, target};
    return LK_TRACE(lk_apply(x.tape, &lk__op_mean_squared_error, in, 2, &attr, out));
}
