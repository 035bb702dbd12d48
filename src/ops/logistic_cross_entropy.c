/* logistic_cross_entropy: of logits x and targets t, for each element with s = 1 / (1 + exp(-x))
 *
 *   l  = -(t log s + (1 - t) log(1 - s))
 *      = (x > 0 ? (1 - t) x : -(t x)) + log(1 + exp(-|x|))       stable for all x
 *   dx = (s - t) dl
 *   dt = -x dl
 *
 * and then the sum or mean, see common/loss.h.
 */
#include "ops/common/each.h"
#include "ops/common/loss/loss.h"

static lk_status logistic_cross_entropy_forward(lk_call *c)
{
    return LK_TRACE(lk__loss_each(c, LK_LOSS_MEAN, LK__LOOP_LOGISTIC_LOSS, 0));
}

/* ---- logistic_cross_entropy_grad: dx of x, t and dl ---- */

/* With g the gradient of dx: for x g dl (s - s^2), for t -g dl, for dl g (s - t). */
static lk_status grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var s, gd, slope;
    LK_TRY(lk_sigmoid(c->in[0], &s));
    LK_TRY(lk_mul(dout[0], c->in[2], &gd));
    if (lk_call_needs_grad(c, 0)) {
        LK_TRY(lk_mul(s, s, &slope));
        LK_TRY(lk_sub(s, slope, &slope));
        LK_TRY(lk_mul(gd, slope, &din[0]));
    }
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_neg(gd, &din[1]));
    if (lk_call_needs_grad(c, 2)) {
        LK_TRY(lk_sub(s, c->in[1], &s));
        LK_TRY(lk_mul(dout[0], s, &din[2]));
    }
    return LK_OK;
}

static const lk_op logistic_cross_entropy_grad = {
    .name = "logistic_cross_entropy_grad",
    .summary = "(1 / (1 + exp(-x)) - t) dl",
    LK_EACH_OP(3),
    .flags = LK_EACH_FLAGS,
    .saves_in = 7,
    .backward = grad_backward,
    .data = &(const lk__each){.loop = LK__LOOP_LOGISTIC_LOSS_GRAD},
};

/* ---- logistic_cross_entropy ---- */

static lk_status logistic_cross_entropy_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var dl;
    LK_TRY(lk__loss_grad(c, LK_LOSS_MEAN, dout[0], lk_shape_of(c->in[0]), &dl));
    if (lk_call_needs_grad(c, 0)) {
        lk_var in[] = {c->in[0], c->in[1], dl};
        LK_TRY(lk_apply_gradient(c, 0, &logistic_cross_entropy_grad, in, 3, NULL, &din[0]));
    }
    if (lk_call_needs_grad(c, 1)) {
        LK_TRY(lk_mul(c->in[0], dl, &din[1]));
        LK_TRY(lk_neg(din[1], &din[1]));
    }
    return LK_OK;
}

const lk_op lk__op_logistic_cross_entropy = {
    .name = "logistic_cross_entropy",
    .summary = "-(t log s + (1 - t) log(1 - s)), s = sigmoid(x); mean, sum or none",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_loss_attr),
    .saves_in = 3,
    .infer = lk__loss_infer_pair,
    .forward = logistic_cross_entropy_forward,
    .backward = logistic_cross_entropy_backward,
    .samples = (const lk_op_sample[]){{.n_in = 2,
                                       .in = {LK_IN_RANGE(-4, 4, 3, 4), LK_IN_RANGE(0, 1, 3, 4)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_DEFAULT}},
                                      {.n_in = 2,
                                       .in = {LK_IN_RANGE(-4, 4, 5, 2), LK_IN_FIXED(0, 1, 5, 2)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_SUM},
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(5, 3), LK_IN(5, 3)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_SAMPLE_MEAN},
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(7), LK_IN(7)},
                                       .attr = &(const lk_loss_attr){LK_LOSS_NONE}},
                                      {0}},
};

lk_status lk_logistic_cross_entropy(lk_var x, lk_var target, lk_loss_reduction reduction,
                                    lk_var *out)
{
    lk_loss_attr attr = {reduction};
    lk_var in[] = {x, target};
    return LK_TRACE(lk_apply(x.tape, &lk__op_logistic_cross_entropy, in, 2, &attr, out));
}
