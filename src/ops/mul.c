/* mul: z = x * y, broadcast to one shape.
 *
 *   dx = dz * y, dy = dz * x, each summed over the axes it was broadcast along
 */
#include "ops/common/each.h"

static lk_status mul_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    for (int i = 0; i < 2; i++) {
        lk_var in[] = {dout[0], c->in[1 - i]};
        if (lk_call_needs_grad(c, i))
            LK_TRY(lk__each_grad_apply(c, i, c->op, in, 2, NULL, &din[i]));
    }
    return LK_OK;
}

const lk_op lk__op_mul = {
    .name = "mul",
    .summary = "x * y",
    LK_EACH_OP(2),
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .backward = mul_backward,
    .data = &(const lk__each){.loop = LK__LOOP_MUL},
    .samples = lk__pair_samples,
};

lk_status lk_mul(lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_mul, (lk_var[]){x, y}, 2, NULL, out));
}
