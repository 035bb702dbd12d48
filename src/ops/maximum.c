/* maximum: z = the larger of x and y, x of equal ones; NaN if one is NaN.  Broadcasts.
 *
 *   dy = dz where y > x, dx = dz elsewhere, also at ties; summed over the axes of a broadcast
 */
#include "ops/common/each.h"
#include "ops/common/grads.h"

static lk_status maximum_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    for (int i = 0; i < 2; i++)
        if (lk_call_needs_grad(c, i))
            LK_TRY(lk__pick_grad(c, i, dout[0], c->in[1], c->in[0], i == 0, &din[i]));
    return LK_OK;
}

const lk_op lk__op_maximum = {
    .name = "maximum",
    .summary = "the larger of x and y",
    LK_EACH_OP(2),
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .backward = maximum_backward,
    .data = &(const lk__each){.loop = LK__LOOP_MAX},
    .samples = lk__pair_samples,
};

lk_status lk_maximum(lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_maximum, (lk_var[]){x, y}, 2, NULL, out));
}
