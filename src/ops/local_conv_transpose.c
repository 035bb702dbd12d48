/* local_conv_transpose: the transpose of local_conv (local defiltering).
 *
 *   y[n, i, ic] = sum over positions o with taps t that reach i, and channels oc, of
 *                 x[n, o, oc] w[o, t, ic, oc]                           one chain from +0
 *   dx = local_conv(dy, w), dw = local_conv_weights(dy, x)
 */
#include "ops/common/ops.h"
#include "ops/common/windows/conv.h"
#include "ops/common/windows/untied.h"
#include "tensor/tensor.h"

static lk_status local_conv_transpose_infer(lk_call *c, lk_output_spec *out)
{
    const lk_conv_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *w = c->x[1];
    int ndim = 0;
    LK_TRY(lk__untied_begin(c, a, &ndim));
    bool fits = w->shape.ndim == 2 * ndim + 2 &&
                w->shape.dim[2 * ndim + 1] == x->shape.dim[ndim + 1];
    for (int d = 0; fits && d < ndim; d++)
        fits = w->shape.dim[d] == x->shape.dim[d + 1];
    LK_CHECK(
        fits, LK_ESHAPE,
        "local_conv_transpose of %s with weights %s: they must be [%d axes as x has, %d of the "
        "kernel, channels of the result, %lld]",
        lk_tensor_text(x).s, lk_tensor_text(w).s, ndim, ndim, (long long)x->shape.dim[ndim + 1]);
    out->dtype = x->dtype;
    out->shape = x->shape;
    for (int d = 0; d < ndim; d++)
        LK_TRY(lk__conv_in_of(c, a, d, x->shape.dim[d + 1], w->shape.dim[ndim + d],
                              &out->shape.dim[d + 1]));
    out->shape.dim[ndim + 1] = w->shape.dim[ndim + ndim];
    return LK_OK;
}

static lk_status local_conv_transpose_forward(lk_call *c)
{
    return LK_TRACE(lk__untied_run(c, c->attr, LK_UNTIED_X, c->y[0], c->x[1], c->x[0]));
}

static lk_status local_conv_transpose_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_conv_attr a = *(const lk_conv_attr *)c->attr;
    memset(a.extra, 0, sizeof a.extra);
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_local_conv(dout[0], c->in[1], &a, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__untied_weights_gradient(c, dout[0], c->in[0], &din[1]));
    return LK_OK;
}

#define ATTR(...) (&(const lk_conv_attr){__VA_ARGS__})

const lk_op lk__op_local_conv_transpose = {
    .name = "local_conv_transpose",
    .summary = "the transpose of local_conv",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_conv_attr),
    .saves_in = 3,
    .infer = local_conv_transpose_infer,
    .forward = local_conv_transpose_forward,
    .backward = local_conv_transpose_backward,
    .samples = (const lk_op_sample[]){{.n_in = 2,
                                       .in = {LK_IN(3, 3, 2), LK_IN(3, 2, 2, 2)},
                                       .attr = ATTR(.groups = 1),
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(2, 2, 2, 1), LK_IN(2, 2, 3, 2, 1, 1)},
                                       .attr = ATTR(.window.stride = {2, 1},
                                                    .window.pad_lo = {1, 0}, .extra = {1, 0}),
                                       .shard_size = 1},
                                      {0}},
};

lk_status lk_local_conv_transpose(lk_var x, lk_var w, const lk_conv_attr *attr, lk_var *out)
{
    static const lk_conv_attr defaults;
    return LK_TRACE(lk_apply(x.tape, &lk__op_local_conv_transpose, (lk_var[]){x, w}, 2,
                             attr ? attr : &defaults, out));
}
