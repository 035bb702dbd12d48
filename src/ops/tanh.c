/* tanh: y = hyperbolic tangent of x
 *
 *   dx = dy * (1 - y^2)                                    tanh_grad(dy, y)
 *   of that: d(dy) = dz * (1 - y^2), d(y) = -2 (dz * dy) * y
 */
#include "ops/common/unary.h"

static lk_status tanh_bend(const lk_call *c, lk_var dz, lk_var *dy)
{
    lk_var u;
    LK_TRY(lk_mul(dz, c->in[0], &u));
    LK_TRY(lk_mul(u, c->in[1], &u));
    return LK_TRACE(lk_affine(u, -2, 0, dy));
}

const lk_op lk__op_tanh = {
    .name = "tanh",
    .summary = "hyperbolic tangent of x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_TANH, .grad = LK__LOOP_TANH_GRAD, .bend = tanh_bend},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 1, 5)}},
                                      {0}},
};

lk_status lk_tanh(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_tanh, &x, 1, NULL, out));
}
