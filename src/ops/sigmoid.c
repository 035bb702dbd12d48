/* sigmoid: y = 1 / (1 + e^-x)
 *
 *   dx = dy * (y * (1 - y))                                sigmoid_grad(dy, y)
 *   of that: d(dy) = dz * (y * (1 - y)), d(y) = (dz * dy) * (1 - 2 y)
 */
#include "ops/common/unary.h"

static lk_status sigmoid_bend(const lk_call *c, lk_var dz, lk_var *dy)
{
    lk_var u, bend;
    LK_TRY(lk_mul(dz, c->in[0], &u));
    LK_TRY(lk_affine(c->in[1], -2, 1, &bend));
    return LK_TRACE(lk_mul(u, bend, dy));
}

const lk_op lk__op_sigmoid = {
    .name = "sigmoid",
    .summary = "1 / (1 + e^-x)",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_SIGMOID,
                              .grad = LK__LOOP_SIGMOID_GRAD,
                              .bend = sigmoid_bend},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 1, 5)}},
                                      {0}},
};

lk_status lk_sigmoid(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_sigmoid, &x, 1, NULL, out));
}
