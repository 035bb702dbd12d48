/* div: z = x / y, broadcast to one shape.
 *
 *   q = dz / y, dx = q, dy = -q * z, each summed over the axes it was broadcast along
 */
#include "ops/common/each.h"
#include "ops/common/grads.h"

static lk_status div_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var q, in[] = {dout[0], c->in[1]};
    if (!lk_call_needs_grad(c, 1)) {
        return LK_TRACE(lk__each_grad_apply(c, 0, c->op, in, 2, NULL, &din[0]));
    }
    LK_TRY(lk_apply(c->tape, c->op, in, 2, NULL, &q));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__each_grad(c, 0, q, &din[0]));
    return LK_TRACE(lk__neg_mul_grad(c, 1, q, c->out[0], &din[1]));
}

const lk_op lk__op_div = {
    .name = "div",
    .summary = "x / y",
    LK_EACH_OP(2),
    .flags = LK_EACH_FLAGS,
    .saves_in = 2,
    .backward = div_backward,
    .data = &(const lk__each){.loop = LK__LOOP_DIV},
    .samples =
        (const lk_op_sample[]){
            {.n_in = 2, .in = {LK_IN_RANGE(-2, 2, 2, 3), LK_IN_RANGE(0.5, 2, 2, 3)}},
            {.n_in = 2, .in = {LK_IN_RANGE(-2, 2, 2, 1, 3), LK_IN_RANGE(0.5, 2, 4, 1)}},
            {.n_in = 2, .in = {LK_IN_RANGE(-2, 2, 3), LK_IN_RANGE(0.5, 2, 5, 3)}, .shard_size = 2},
            {0}},
};

lk_status lk_div(lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_div, (lk_var[]){x, y}, 2, NULL, out));
}
