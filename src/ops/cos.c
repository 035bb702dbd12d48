/* cos: y = cosine of x
 *
 *   dx = -(dy * sin x)
 */
#include "ops/common/each.h"
#include "ops/common/grads.h"

static lk_status cos_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var sine;
    LK_TRY(lk_sin(c->in[0], &sine));
    return LK_TRACE(lk__neg_mul_grad(c, 0, dout[0], sine, &din[0]));
}

const lk_op lk__op_cos = {
    .name = "cos",
    .summary = "cosine of x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .backward = cos_backward,
    .data = &(const lk__each){.loop = LK__LOOP_COS},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-4, 4, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-4, 4, 1, 5)}},
                                      {0}},
};

lk_status lk_cos(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_cos, &x, 1, NULL, out));
}
