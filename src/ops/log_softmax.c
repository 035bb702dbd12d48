/* log_softmax: along one axis,
 *
 *   y  = (x - max x) - log sum exp(x - max x)
 *   dx = dy - exp(y) sum dy
 *
 * The sums are the lane sums of lk_reduce_axis(), one piece: an axis of softmax is never split.
 */
#include "ops/common/loss/softmax.h"
#include "ops/common/ops.h"

/* ---- log_softmax_grad: dx of y and dy ---- */

static void log_softmax_grad_sheet(lk__sheet *t)
{
    lk__sheet_sum(t, LK__ALONG_SECONDS, 0);
    lk__sheet_start(t, 1);
    lk__sheet_loop(t, LK__LOOP_LOG_SOFTMAX_GRAD);
}

/* With g the gradient of dx and e = exp(y): for y -g e sum dy, for dy g - sum (g e). */
static lk_status log_softmax_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var g = dout[0], ge, s;
    LK_TRY(lk_exp(c->in[0], &ge));
    LK_TRY(lk_mul(g, ge, &ge));
    if (lk_call_needs_grad(c, 0)) {
        LK_TRY(lk__softmax_sum(c, c->in[1], &s));
        LK_TRY(lk_neg(s, &s));
        LK_TRY(lk_mul(ge, s, &din[0]));
    }
    if (lk_call_needs_grad(c, 1)) {
        LK_TRY(lk__softmax_sum(c, ge, &s));
        LK_TRY(lk_sub(g, s, &din[1]));
    }
    return LK_OK;
}

static const lk_op log_softmax_grad = {
    .name = "log_softmax_grad",
    .summary = "dy - exp(y) sum dy",
    LK_ARITY(2, 1),
    .flags = LK_OP_OVERWRITES,
    .attr_size = sizeof(lk_softmax_attr),
    .saves_in = 3,
    .infer = lk__softmax_infer,
    .forward = lk__softmax_grad_forward,
    .backward = log_softmax_grad_backward,
    .data = &(const lk__softmax){.sheet = log_softmax_grad_sheet},
};

const lk_op lk__op_log_softmax = {
    .name = "log_softmax",
    .summary = "x - log sum exp(x) along an axis",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk_softmax_attr),
    .infer = lk__softmax_infer,
    .forward = lk__softmax_forward,
    .backward = lk__softmax_backward,
    .data = &(const lk__softmax){.rows = lk_log_softmax_rows, .grad = &log_softmax_grad},
    .samples = lk__softmax_samples,
};

lk_status lk_log_softmax(lk_var x, int axis, lk_var *out)
{
    lk_softmax_attr attr = {axis};
    return LK_TRACE(lk_apply(x.tape, &lk__op_log_softmax, &x, 1, &attr, out));
}
