/* sub: z = x - y, broadcast to one shape.
 *
 *   dx = dz, dy = -dz, each summed over the axes it was broadcast along
 */
#include "ops/common/each.h"

static lk_status sub_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__each_grad(c, 0, dout[0], &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var sum;
        LK_TRY(lk__each_grad(c, 1, dout[0], &sum));
        LK_TRY(lk_apply_gradient(c, 1, &lk__op_neg, &sum, 1, NULL, &din[1]));
    }
    return LK_OK;
}

const lk_op lk__op_sub = {
    .name = "sub",
    .summary = "x - y",
    LK_EACH_OP(2),
    .flags = LK_OP_LINEAR | LK_EACH_FLAGS,
    .backward = sub_backward,
    .data = &(const lk__each){.loop = LK__LOOP_SUB},
    .samples = lk__pair_samples,
};

lk_status lk_sub(lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_sub, (lk_var[]){x, y}, 2, NULL, out));
}
