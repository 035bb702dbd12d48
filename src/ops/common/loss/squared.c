/* Squared errors.
 *
 *   l  = w (x - t)^2
 *   dx = 2 w (x - t) dl, dt = -dx
 */
#include "ops/common/loss/squared.h"

#include "ops/common/each.h"
#include "ops/common/loss/loss.h"
#include "ops/common/ops.h"

lk_status lk__squared_forward(lk_call *c)
{
    const lk__squared *s = c->op->data;
    return LK_TRACE(
        lk__loss_terms(c, s->otherwise, LK__LOOP_SQUARED_ERROR, LK__ALONG_ERRORS, s->w));
}

/* ---- squared_grad: dx of x, t and dl; the attribute is 2 w ---- */

/* With g the gradient of dx: for x 2 w g dl, for t minus that, for dl 2 w g (x - t). */
static lk_status grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var gd;
    if (lk_call_needs_grad(c, 0) || lk_call_needs_grad(c, 1)) {
        LK_TRY(lk_mul(dout[0], c->in[2], &gd));
        LK_TRY(lk_affine(gd, *(const double *)c->attr, 0, &din[0]));
    }
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_neg(din[0], &din[1]));
    if (lk_call_needs_grad(c, 2)) {
        lk_var in[] = {c->in[0], c->in[1], dout[0]};
        LK_TRY(lk_apply(c->tape, c->op, in, 3, c->attr, &din[2]));
    }
    return LK_OK;
}

static const lk_op squared_grad = {
    .name = "squared_grad",
    .summary = "2 w (x - t) dl",
    LK_ARITY(3, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(double),
    .saves_in = 7,
    .infer = lk__each_infer,
    .forward = lk__each_forward,
    .backward = grad_backward,
    .data = &(const lk__each){.loop = LK__LOOP_SQUARED_ERROR_GRAD},
};

lk_status lk__squared_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__squared *s = c->op->data;
    lk_var dl;
    double twice = 2 * s->w;
    LK_TRY(lk__loss_grad(c, s->otherwise, dout[0], lk_shape_of(c->in[0]), &dl));
    lk_var in[] = {c->in[0], c->in[1], dl};
    if (!lk_call_needs_grad(c, 1)) {
        return LK_TRACE(lk_apply_gradient(c, 0, &squared_grad, in, 3, &twice, &din[0]));
    }
    LK_TRY(lk_apply(c->tape, &squared_grad, in, 3, &twice, &din[0]));
    return LK_TRACE(lk_neg(din[0], &din[1]));
}

const lk_op_sample lk__squared_samples[] = {
    {.n_in = 2, .in = {LK_IN(3, 4), LK_IN(3, 4)}, .attr = &(const lk_loss_attr){LK_LOSS_DEFAULT}},
    {.n_in = 2,
     .in = {LK_IN(5, 2), LK_IN_FIXED(-1, 1, 5, 2)},
     .attr = &(const lk_loss_attr){LK_LOSS_SUM},
     .shard_size = 2},
    {.n_in = 2,
     .in = {LK_IN(5, 1, 2), LK_IN(5, 1, 2)},
     .attr = &(const lk_loss_attr){LK_LOSS_SAMPLE_MEAN},
     .shard_size = 3},
    {.n_in = 2, .in = {LK_IN(6), LK_IN(6)}, .attr = &(const lk_loss_attr){LK_LOSS_MEAN}},
    {.n_in = 2, .in = {LK_IN(7), LK_IN(7)}, .attr = &(const lk_loss_attr){LK_LOSS_NONE}},
    {0}};
