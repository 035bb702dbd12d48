/* softplus: y = log(1 + e^x)
 *
 *   dx = dy * s, s = sigmoid(x)                            softplus_grad(dy, x)
 *   of that: d(dy) = dz * s, dx = (dz * dy) * (s * (1 - s))
 */
#include "ops/common/each.h"

#include <lockstep/ops.h>

static lk_status softplus_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SOFTPLUS));
    return LK_OK;
}

static lk_status softplus_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SOFTPLUS_GRAD));
    return LK_OK;
}

static lk_status softplus_grad_apply(lk_var g, lk_var x, lk_var *out);

static lk_status softplus_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(softplus_grad_apply(dout[0], c->in[1], &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u, s, rest;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(lk_sigmoid(c->in[1], &s));
        LK_TRY(lk_affine(s, -1, 1, &rest));
        LK_TRY(lk_mul(s, rest, &s));
        LK_TRY(lk_mul(u, s, &din[1]));
    }
    return LK_OK;
}

static const lk_op softplus_grad = {
    .name = "softplus_grad",
    .summary = "g * sigmoid(x)",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = softplus_grad_forward,
    .backward = softplus_grad_backward,
};

static lk_status softplus_grad_apply(lk_var g, lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &softplus_grad, (lk_var[]){g, x}, 2, NULL, out));
    return LK_OK;
}

static lk_status softplus_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &softplus_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_softplus;

lk_status lk_softplus(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_softplus, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_softplus = {
    .name = "softplus",
    .summary = "log(1 + e^x)",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .infer = lk__each_infer,
    .forward = softplus_forward,
    .backward = softplus_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 1, 5)}},
                                      {0}},
};
