/* exp: y = e^x
 *
 *   dx = dy * y
 */
#include "ops/common/each.h"

static lk_status exp_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->out[0]};
    return LK_TRACE(lk_apply_gradient(c, 0, &lk__op_mul, in, 2, NULL, &din[0]));
}

const lk_op lk__op_exp = {
    .name = "exp",
    .summary = "e^x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .backward = exp_backward,
    .data = &(const lk__each){.loop = LK__LOOP_EXP},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 1, 5)}},
                                      {0}},
};

lk_status lk_exp(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_exp, &x, 1, NULL, out));
}
