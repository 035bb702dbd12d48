/* neg: y = -x
 *
 *   dx = -dy
 */
#include "ops/common/each.h"

static lk_status neg_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply_gradient(c, 0, c->op, dout, 1, NULL, &din[0]));
}

const lk_op lk__op_neg = {
    .name = "neg",
    .summary = "-x",
    LK_EACH_OP(1),
    .flags = LK_OP_LINEAR | LK_EACH_FLAGS,
    .backward = neg_backward,
    .data = &(const lk__each){.loop = LK__LOOP_NEG},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}}, {0}},
};

lk_status lk_neg(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_neg, &x, 1, NULL, out));
}
