/* sqrt: y = square root of x
 *
 *   dx = dy / (2 y)                                        sqrt_grad(dy, y)
 *   of that, with z = dy / (2 y): d(dy) = dz / (2 y), d(y) = -(dz * (z / y))
 */
#include "ops/common/grads.h"
#include "ops/common/unary.h"

static lk_status sqrt_bend(const lk_call *c, lk_var dz, lk_var *dy)
{
    lk_var q;
    LK_TRY(lk_div(c->out[0], c->in[1], &q));
    return LK_TRACE(lk__neg_mul(dz, q, dy));
}

const lk_op lk__op_sqrt = {
    .name = "sqrt",
    .summary = "square root of x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_SQRT, .grad = LK__LOOP_SQRT_GRAD, .bend = sqrt_bend},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(0.2, 4, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(0.2, 4, 1, 5)}},
                                      {0}},
};

lk_status lk_sqrt(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_sqrt, &x, 1, NULL, out));
}
