/* local_conv: untied convolution (local filtering), each output position with its own filter.
 *
 *   y[n, o, oc] = sum over taps t and channels ic of x[n, o stride - pad + t dilation, ic]
 *                 w[o, t, ic, oc]                                       one chain from +0
 *   dx = local_conv_transpose(dy, w), dw = local_conv_weights(x, dy)
 */
#include "ops/common/ops.h"
#include "ops/common/windows/conv.h"
#include "ops/common/windows/untied.h"
#include "tensor/tensor.h"

static lk_status local_conv_infer(lk_call *c, lk_output_spec *out)
{
    const lk_conv_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *w = c->x[1];
    int ndim = 0;
    LK_TRY(lk__untied_begin(c, a, &ndim));
    LK_TRY(lk__conv_no_extra(c, a, ndim));
    LK_CHECK(w->shape.ndim == 2 * ndim + 2, LK_ESHAPE,
             "local_conv of %s with weights %s: they must be [%d axes of output positions, %d of "
             "the kernel, %lld, out channels]",
             lk_tensor_text(x).s, lk_tensor_text(w).s, ndim, ndim,
             (long long)x->shape.dim[ndim + 1]);
    out->dtype = x->dtype;
    out->shape = x->shape;
    for (int d = 0; d < ndim; d++)
        LK_TRY(lk__conv_out_of(c, a, d, x->shape.dim[d + 1], w->shape.dim[ndim + d],
                               &out->shape.dim[d + 1]));
    out->shape.dim[ndim + 1] = w->shape.dim[2 * ndim + 1];
    lk_shape want = lk__untied_weights(&x->shape, &out->shape, &w->shape.dim[ndim]);
    LK_CHECK(lk_shape_is_equal(want, w->shape), LK_ESHAPE,
             "local_conv of %s with weights %s: for this kernel they must be %s",
             lk_tensor_text(x).s, lk_tensor_text(w).s, lk_shape_text(want).s);
    return LK_OK;
}

static lk_status local_conv_forward(lk_call *c)
{
    return LK_TRACE(lk__untied_run(c, c->attr, LK_UNTIED_Y, c->x[0], c->x[1], c->y[0]));
}

static lk_status local_conv_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_conv_attr a = *(const lk_conv_attr *)c->attr;
    lk_shape x = lk_shape_of(c->in[0]), y = lk_shape_of(dout[0]), w = lk_shape_of(c->in[1]);
    int ndim = x.ndim - 2;
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__untied_weights_gradient(c, c->in[0], dout[0], &din[1]));
    if (lk_call_needs_grad(c, 0)) {
        lk__conv_extra(&a, ndim, &x.dim[1], &y.dim[1], &w.dim[ndim]);
        LK_TRY(lk_local_conv_transpose(dout[0], c->in[1], &a, &din[0]));
    }
    return LK_OK;
}

#define ATTR(...) (&(const lk_conv_attr){__VA_ARGS__})

const lk_op lk__op_local_conv = {
    .name = "local_conv",
    .summary = "convolution of x with a filter of its own for each output position",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_conv_attr),
    .saves_in = 3,
    .infer = local_conv_infer,
    .forward = local_conv_forward,
    .backward = local_conv_backward,
    .samples = (const lk_op_sample[]){{.n_in = 2,
                                       .in = {LK_IN(3, 4, 2), LK_IN(3, 2, 2, 2)},
                                       .attr = ATTR(.groups = 1),
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(2, 3, 3, 1), LK_IN(2, 2, 3, 2, 1, 1)},
                                       .attr = ATTR(.window.stride = {2, 1},
                                                    .window.pad_lo = {1, 0},
                                                    .window.pad_hi = {1, 0}),
                                       .shard_size = 1},
                                      {.n_in = 2,
                                       .in = {LK_IN(1, 6, 2), LK_IN(2, 2, 2, 3)},
                                       .attr = ATTR(.window.stride = {2}, .window.dilation = {3})},
                                      {.n_in = 2,
                                       .in = {LK_IN(2, 1, 2, 2, 1), LK_IN(1, 1, 2, 1, 2, 1, 1, 2)},
                                       .attr = ATTR(.groups = 1)},
                                      {0}},
};

lk_status lk_local_conv(lk_var x, lk_var w, const lk_conv_attr *attr, lk_var *out)
{
    static const lk_conv_attr defaults;
    return LK_TRACE(
        lk_apply(x.tape, &lk__op_local_conv, (lk_var[]){x, w}, 2, attr ? attr : &defaults, out));
}
