/* linear: y = x w + b for each row of x.
 *
 *   y[..., o] = b[o] + sum over i of x[..., i] w[i, o]       one chain from b[o] or +0
 *   dx = dy w', dw = linear_weights(x, dy), db = dy summed over all rows
 *
 * With an activation y = act(z) of that z, and dy is dz, from dy and y.
 */
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

#include <lockstep/extra/gemm.h>

static lk_act act_of(const lk_call *c)
{
    return ((const lk_linear_attr *)c->attr)->act;
}

static lk_status linear_infer(lk_call *c, lk_output_spec *out)
{
    const lk_tensor *x = c->x[0], *w = c->x[1];
    int last = x->shape.ndim - 1;
    LK_TRY(lk__same_infer(c, out));
    LK_TRY(lk__act_check(c->op->name, act_of(c)));
    LK_CHECK(x->dtype == w->dtype, LK_EDTYPE, "%s of %s with weights %s: lk_cast() one of them",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(w).s);
    LK_CHECK(last >= 1, LK_ESHAPE, "%s of %s: needs [batch, ..., in]; lk_reshape() a sample",
             c->op->name, lk_tensor_text(x).s);
    LK_CHECK(w->shape.ndim == 2 && w->shape.dim[0] == x->shape.dim[last], LK_ESHAPE,
             "%s of %s with weights %s: they must be [%lld, out]", c->op->name, lk_tensor_text(x).s,
             lk_tensor_text(w).s, (long long)x->shape.dim[last]);
    if (c->n_in > 2)
        LK_TRY(lk__bias_check(c, 2, w->shape.dim[1]));
    out->shape.dim[last] = w->shape.dim[1];
    return LK_OK;
}

static lk_status linear_forward(lk_call *c)
{
    const lk_tensor *w = c->x[1], *y = c->y[0];
    int64_t samples, rows;
    LK_TRY(lk__rows_of(&y->shape, &samples, &rows));
    lk_gemm g = {.dtype = y->dtype,
                 .act = act_of(c),
                 .m = samples * rows,
                 .n = w->shape.dim[1],
                 .k = w->shape.dim[0],
                 .lda = w->shape.dim[0],
                 .ldb = w->shape.dim[1],
                 .ldc = w->shape.dim[1]};
    return LK_TRACE(lk_gemm_run(&g, lk__tensor_start(c->x[0]), lk__tensor_start(w),
                                c->n_in > 2 ? lk__tensor_start(c->x[2]) : NULL,
                                lk__tensor_start(y)));
}

static lk_status linear_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var dy;
    LK_TRY(lk__act_grad(act_of(c), dout[0], c->out[0], &dy));
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_matmul_trans(dy, c->in[1], false, true, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_apply_gradient(c, 1, &lk__op_linear_weights, (lk_var[]){c->in[0], dy}, 2, NULL,
                                 &din[1]));
    if (c->n_in > 2 && lk_call_needs_grad(c, 2))
        LK_TRY(lk__bias_gradient(c, 2, dy, &din[2]));
    return LK_OK;
}

lk_status lk_linear(lk_var x, lk_var w, lk_var b, lk_var *out)
{
    return LK_TRACE(lk_linear_act(x, w, b, LK_ACT_NONE, out));
}

lk_status lk_linear_relu(lk_var x, lk_var w, lk_var b, lk_var *out)
{
    return LK_TRACE(lk_linear_act(x, w, b, LK_ACT_RELU, out));
}

#define ATTR(...) (&(const lk_linear_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 3, .in = {LK_IN(5, 3), LK_IN(3, 4), LK_IN(4)}, .attr = ATTR(0), .shard_size = 2},
    {.n_in = 2, .in = {LK_IN(3, 2, 2, 2), LK_IN(2, 3)}, .attr = ATTR(0), .shard_size = 2},
    {.n_in = 3, .in = {LK_IN(2, 3, 1), LK_IN(1, 1), LK_IN(1)}, .attr = ATTR(0)},
    {.n_in = 3,
     .in = {LK_IN(5, 3), LK_IN(3, 4), LK_IN(4)},
     .attr = ATTR(LK_ACT_RELU),
     .shard_size = 2},
    {.n_in = 2,
     .in = {LK_IN(3, 2, 2, 2), LK_IN(2, 3)},
     .attr = ATTR(LK_ACT_SIGMOID),
     .shard_size = 2},
    {.n_in = 3, .in = {LK_IN(2, 3), LK_IN(3, 2), LK_IN(2)}, .attr = ATTR(LK_ACT_TANH)},
    {0}};

const lk_op lk__op_linear = {
    .name = "linear",
    .summary = "x w + b for each row of x, b optional, and an activation of that",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .attr_size = sizeof(lk_linear_attr),
    .saves_in = 3,
    .infer = linear_infer,
    .forward = linear_forward,
    .backward = linear_backward,
    .samples = samples,
};

lk_status lk_linear_act(lk_var x, lk_var w, lk_var b, lk_act act, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_linear, (lk_var[]){x, w, b}, lk_is_var(b) ? 3 : 2,
                             &(lk_linear_attr){act}, out));
}
