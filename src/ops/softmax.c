/* softmax: along one axis,
 *
 *   y  = exp(x - max x) / sum exp(x - max x)
 *   dx = y (dy - sum (y dy))
 *
 * The sums are the lane sums of lk_reduce_axis(), one piece: an axis of softmax is never split.
 */
#include "ops/common/loss/softmax.h"

#include "ops/common/ops.h"

/* ---- softmax_grad: dx of y and dy ---- */

static void softmax_grad_sheet(lk__sheet *t)
{
    lk__sheet_sum(t, LK__ALONG_PRODUCTS, 0);
    lk__sheet_map(t, LK__TERM_TIMES_DIFFERENCE);
}

/* With g the gradient of dx: the op is linear in dy, and symmetric; for y
 * g (dy - sum (y dy)) - dy sum (y g). */
static lk_status softmax_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var y = c->in[0], dy = c->in[1], g = dout[0], s, t;
    if (lk_call_needs_grad(c, 0)) {
        LK_TRY(lk_mul(y, dy, &s));
        LK_TRY(lk__softmax_sum(c, s, &s));
        LK_TRY(lk_sub(dy, s, &s));
        LK_TRY(lk_mul(g, s, &s));
        LK_TRY(lk_mul(y, g, &t));
        LK_TRY(lk__softmax_sum(c, t, &t));
        LK_TRY(lk_mul(dy, t, &t));
        LK_TRY(lk_sub(s, t, &din[0]));
    }
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){y, g}, 2, c->attr, &din[1]));
    return LK_OK;
}

static const lk_op softmax_grad = {
    .name = "softmax_grad",
    .summary = "y (dy - sum (y dy))",
    LK_ARITY(2, 1),
    .flags = LK_OP_OVERWRITES,
    .attr_size = sizeof(lk_softmax_attr),
    .saves_in = 3,
    .infer = lk__softmax_infer,
    .forward = lk__softmax_grad_forward,
    .backward = softmax_grad_backward,
    .data = &(const lk__softmax){.sheet = softmax_grad_sheet},
};

lk_status lk__softmax_grad(lk_var y, lk_var dy, lk_var *out)
{
    lk_softmax_attr last = {LK_LAST_AXIS};
    return LK_TRACE(lk_apply(y.tape, &softmax_grad, (lk_var[]){y, dy}, 2, &last, out));
}

const lk_op lk__op_softmax = {
    .name = "softmax",
    .summary = "exp(x) / sum exp(x) along an axis",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk_softmax_attr),
    .infer = lk__softmax_infer,
    .forward = lk__softmax_forward,
    .backward = lk__softmax_backward,
    .data = &(const lk__softmax){.rows = lk_softmax_rows, .grad = &softmax_grad},
    .samples = lk__softmax_samples,
};

lk_status lk_softmax(lk_var x, int axis, lk_var *out)
{
    lk_softmax_attr attr = {axis};
    return LK_TRACE(lk_apply(x.tape, &lk__op_softmax, &x, 1, &attr, out));
}
