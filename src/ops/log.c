/* log: y = natural logarithm of x
 *
 *   dx = dy / x
 */
#include "ops/common/each.h"

static lk_status log_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    return LK_TRACE(lk_apply_gradient(c, 0, &lk__op_div, in, 2, NULL, &din[0]));
}

const lk_op lk__op_log = {
    .name = "log",
    .summary = "natural logarithm of x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .backward = log_backward,
    .data = &(const lk__each){.loop = LK__LOOP_LOG},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(0.2, 4, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(0.2, 4, 1, 5)}},
                                      {0}},
};

lk_status lk_log(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_log, &x, 1, NULL, out));
}
