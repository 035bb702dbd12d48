/* add: z = x + y, broadcast to one shape.
 *
 *   dx = dz, dy = dz, each summed over the axes it was broadcast along
 */
#include "ops/common/each.h"

static lk_status add_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    for (int i = 0; i < 2; i++)
        if (lk_call_needs_grad(c, i))
            LK_TRY(lk__each_grad(c, i, dout[0], &din[i]));
    return LK_OK;
}

const lk_op lk__op_add = {
    .name = "add",
    .summary = "x + y",
    LK_EACH_OP(2),
    .flags = LK_OP_LINEAR | LK_EACH_FLAGS,
    .backward = add_backward,
    .data = &(const lk__each){.loop = LK__LOOP_ADD},
    .samples = lk__pair_samples,
};

lk_status lk_add(lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_add, (lk_var[]){x, y}, 2, NULL, out));
}
