/* softplus: y = log(1 + e^x)
 *
 *   dx = dy * s, s = sigmoid(x)                            softplus_grad(dy, x)
 *   of that: d(dy) = dz * s, dx = (dz * dy) * (s * (1 - s))
 */
#include "ops/common/unary.h"

static lk_status softplus_bend(const lk_call *c, lk_var dz, lk_var *dx)
{
    lk_var u, s, rest;
    LK_TRY(lk_mul(dz, c->in[0], &u));
    LK_TRY(lk_sigmoid(c->in[1], &s));
    LK_TRY(lk_affine(s, -1, 1, &rest));
    LK_TRY(lk_mul(s, rest, &s));
    return LK_TRACE(lk_mul(u, s, dx));
}

const lk_op lk__op_softplus = {
    .name = "softplus",
    .summary = "log(1 + e^x)",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_SOFTPLUS,
                              .grad = LK__LOOP_SOFTPLUS_GRAD,
                              .bend = softplus_bend},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 1, 5)}},
                                      {0}},
};

lk_status lk_softplus(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_softplus, &x, 1, NULL, out));
}
