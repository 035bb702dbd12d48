/* bias: y[..., c] = x[..., c] + b[c].
 *
 *   dx = dy, db = dy summed over all but the last axis
 */
#include "ops/common/each.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

static lk_status bias_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__same_infer(c, out));
    LK_CHECK(out->shape.ndim >= 1, LK_ESHAPE, "bias of %s, which has no axis to add %s along",
             lk_tensor_text(c->x[0]).s, lk_tensor_text(c->x[1]).s);
    return LK_TRACE(lk__bias_check(c, 1, out->shape.dim[out->shape.ndim - 1]));
}

static lk_status bias_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    din[0] = dout[0];
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__bias_gradient(c, 1, dout[0], &din[1]));
    return LK_OK;
}

const lk_op lk__op_bias = {
    .name = "bias",
    .summary = "x + b along the last axis",
    LK_ARITY(2, 1),
    .flags = LK_OP_LINEAR | LK_EACH_FLAGS,
    .infer = bias_infer,
    .forward = lk__each_forward,
    .backward = bias_backward,
    .data = &(const lk__each){.loop = LK__LOOP_ADD},
    .samples = (const lk_op_sample[]){{.n_in = 2,
                                       .in = {LK_IN(5, 2, 3), LK_IN(3)},
                                       .shard_size = 2},
                                      {.n_in = 2, .in = {LK_IN(4, 1), LK_IN(1)}},
                                      {.n_in = 2, .in = {LK_IN(3), LK_IN(3)}},
                                      {0}},
};

lk_status lk_bias(lk_var x, lk_var b, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_bias, (lk_var[]){x, b}, 2, NULL, out));
}
