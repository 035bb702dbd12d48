/* conv_transpose: the transpose of conv, from the shape of its output to that of its input.
 *
 *   y[n, i, ic] = b[ic] + sum over positions o with taps t that reach i, and channels oc, of
 *                         x[n, o, oc] w[t, ic, oc]            one chain, see conv.h
 *   dx = conv(dy, w), dw = conv_weights(dy, x), db = dy summed over all but channels
 *
 * It is the gradient of conv with respect to its input, and a layer in its own right.
 */
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "ops/common/windows/conv.h"
#include "tensor/tensor.h"

static lk_status conv_transpose_infer(lk_call *c, lk_output_spec *out)
{
    const lk_conv_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *w = c->x[1];
    int ndim = 0;
    int64_t groups = 1;
    LK_TRY(lk__conv_begin(c, a, &ndim, &groups));
    int last = ndim + 1;
    int64_t channels = x->shape.dim[last];
    LK_CHECK(w->shape.ndim == ndim + 2 && w->shape.dim[last] == channels, LK_ESHAPE,
             "conv_transpose of %s with weights %s: they must be [%d axes of the kernel, channels "
             "of the result in a group, %lld]",
             lk_tensor_text(x).s, lk_tensor_text(w).s, ndim, (long long)channels);
    out->dtype = x->dtype;
    out->shape = x->shape;
    for (int d = 0; d < ndim; d++)
        LK_TRY(
            lk__conv_in_of(c, a, d, x->shape.dim[d + 1], w->shape.dim[d], &out->shape.dim[d + 1]));
    LK_CHECK(!__builtin_mul_overflow(w->shape.dim[ndim], groups, &out->shape.dim[last]),
             LK_EOVERFLOW, "conv_transpose of %s with weights %s and %lld groups: the channels",
             lk_tensor_text(x).s, lk_tensor_text(w).s, (long long)groups);
    if (c->n_in > 2)
        LK_TRY(lk__bias_check(c, 2, out->shape.dim[last]));
    return LK_OK;
}

static lk_status conv_transpose_forward(lk_call *c)
{
    lk_conv_plan *plan = NULL;
    const lk_tensor *x = c->x[0], *w = c->x[1], *y = c->y[0];
    LK_TRY(lk__conv_plan_of(c, c->attr, y, x, w->shape.dim, &plan));
    return LK_TRACE(lk_conv_backward_data(plan, lk__tensor_start(x), lk__tensor_start(w),
                                          c->n_in > 2 ? lk__tensor_start(c->x[2]) : NULL, false,
                                          lk__tensor_start(y)));
}

static lk_status conv_transpose_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_conv_attr a = *(const lk_conv_attr *)c->attr;
    memset(a.extra, 0, sizeof a.extra);
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_conv(dout[0], c->in[1], LK_NO_VAR, &a, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__conv_weights_gradient(c, dout[0], c->in[0], &din[1]));
    if (c->n_in > 2 && lk_call_needs_grad(c, 2))
        LK_TRY(lk__bias_gradient(c, 2, dout[0], &din[2]));
    return LK_OK;
}

#define ATTR(...) (&(const lk_conv_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 3,
     .in = {LK_IN(3, 3, 2), LK_IN(3, 2, 2), LK_IN(2)},
     .attr = ATTR(.groups = 1),
     .shard_size = 2},
    {.n_in = 2,
     .in = {LK_IN(2, 2, 3, 1), LK_IN(3, 2, 2, 1)},
     .attr = ATTR(.window.stride = {2, 1}, .window.pad_lo = {1, 0}, .extra = {1, 0}),
     .shard_size = 1},
    {.n_in = 3,
     .in = {LK_IN(1, 2, 4), LK_IN(2, 2, 4), LK_IN(4)},
     .attr = ATTR(.window.dilation = {2}, .window.stride = {3}, .extra = {2}, .groups = 2)},
    {.n_in = 2, .in = {LK_IN(1, 1, 2, 2, 2), LK_IN(2, 2, 2, 1, 2)}, .attr = ATTR(.groups = 1)},
    {.n_in = 3,
     .in = {LK_IN(2, 4, 3, 2), LK_IN(3, 3, 3, 2), LK_IN(3)},
     .attr = ATTR(.window.pad_lo = {1, 0}, .window.pad_hi = {0, 1}, .algorithm = LK_CONV_WINOGRAD),
     .shard_size = 1},
    {0}};

const lk_op lk__op_conv_transpose = {
    .name = "conv_transpose",
    .summary = "the transpose of a convolution with w applied to x, plus b",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .attr_size = sizeof(lk_conv_attr),
    .saves_in = 3,
    .infer = conv_transpose_infer,
    .forward = conv_transpose_forward,
    .backward = conv_transpose_backward,
    .samples = samples,
};

lk_status lk_conv_transpose(lk_var x, lk_var w, lk_var b, const lk_conv_attr *attr, lk_var *out)
{
    static const lk_conv_attr defaults;
    return LK_TRACE(lk_apply(x.tape, &lk__op_conv_transpose, (lk_var[]){x, w, b},
                             lk_is_var(b) ? 3 : 2, attr ? attr : &defaults, out));
}
