/* sin: y = sine of x
 *
 *   dx = dy * cos x
 */
#include "ops/common/each.h"

static lk_status sin_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var slope;
    LK_TRY(lk_cos(c->in[0], &slope));
    return LK_TRACE(
        lk_apply_gradient(c, 0, &lk__op_mul, (lk_var[]){dout[0], slope}, 2, NULL, &din[0]));
}

const lk_op lk__op_sin = {
    .name = "sin",
    .summary = "sine of x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .backward = sin_backward,
    .data = &(const lk__each){.loop = LK__LOOP_SIN},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-4, 4, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-4, 4, 1, 5)}},
                                      {0}},
};

lk_status lk_sin(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_sin, &x, 1, NULL, out));
}
