/* conv: convolution (correlation) in one to three dimensions, channels last.
 *
 *   y[n, o, oc] = b[oc] + sum over taps t and channels ic of x[n, o stride - pad + t dilation, ic]
 *                         w[t, ic, oc]                        one chain, see conv.h
 *   dx = conv_transpose(dy, w), dw = conv_weights(x, dy), db = dy summed over all but channels
 *
 * With an activation y = act(z) of that z, and dy is dz, from dy and y.
 */
#include "ops/common/windows/conv.h"

#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/products.h"
#include "tensor/tensor.h"

static lk_status conv_infer(lk_call *c, lk_output_spec *out)
{
    const lk_conv_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *w = c->x[1];
    lk_conv_attr linear = *a; /* all but the activation */
    int ndim = 0;
    int64_t groups = 1;
    linear.act = LK_ACT_NONE;
    LK_TRY(lk__conv_begin(c, &linear, &ndim, &groups));
    LK_TRY(lk__conv_no_extra(c, a, ndim));
    LK_TRY(lk__act_check(c->op->name, a->act));
    int last = ndim + 1;
    int64_t channels = x->shape.dim[last];
    LK_CHECK(w->shape.ndim == ndim + 2 && w->shape.dim[ndim] == channels / groups &&
                 w->shape.dim[last] % groups == 0,
             LK_ESHAPE,
             "%s of %s with weights %s: they must be [%d axes of the kernel, %lld, out channels], "
             "the last a multiple of %lld groups",
             c->op->name, lk_tensor_text(x).s, lk_tensor_text(w).s, ndim,
             (long long)(channels / groups), (long long)groups);
    if (c->n_in > 2)
        LK_TRY(lk__bias_check(c, 2, w->shape.dim[last]));
    out->dtype = x->dtype;
    out->shape = x->shape;
    for (int d = 0; d < ndim; d++)
        LK_TRY(
            lk__conv_out_of(c, a, d, x->shape.dim[d + 1], w->shape.dim[d], &out->shape.dim[d + 1]));
    out->shape.dim[last] = w->shape.dim[last];
    return LK_OK;
}

static lk_status conv_forward(lk_call *c)
{
    const lk_conv_attr *a = c->attr;
    lk_conv_plan *plan = NULL;
    const lk_tensor *x = c->x[0], *w = c->x[1], *y = c->y[0];
    LK_TRY(lk__conv_plan_of(c, a, x, y, w->shape.dim, &plan));
    return LK_TRACE(lk_conv_forward(plan, lk__tensor_start(x), lk__tensor_start(w),
                                    c->n_in > 2 ? lk__tensor_start(c->x[2]) : NULL, a->act,
                                    lk__tensor_start(y)));
}

lk_status lk__conv_weights_gradient(const lk_call *c, lk_var x, lk_var y, lk_var *dw)
{
    lk_conv_attr attr = *(const lk_conv_attr *)c->attr;
    lk_shape w = lk_shape_of(c->in[1]);
    memset(attr.extra, 0, sizeof attr.extra);
    attr.act = LK_ACT_NONE;
    memcpy(attr.window.kernel, w.dim, (size_t)(w.ndim - 2) * sizeof attr.window.kernel[0]);
    return LK_TRACE(lk_apply_gradient(c, 1, &lk__op_conv_weights, (lk_var[]){x, y}, 2, &attr, dw));
}

static lk_status conv_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_conv_attr a = *(const lk_conv_attr *)c->attr;
    lk_shape x = lk_shape_of(c->in[0]), y = lk_shape_of(dout[0]), w = lk_shape_of(c->in[1]);
    lk_var dy;
    LK_TRY(lk__act_grad(a.act, dout[0], c->out[0], &dy));
    a.act = LK_ACT_NONE;
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__conv_weights_gradient(c, c->in[0], dy, &din[1]));
    if (lk_call_needs_grad(c, 0)) {
        lk__conv_extra(&a, x.ndim - 2, &x.dim[1], &y.dim[1], w.dim);
        LK_TRY(lk_conv_transpose(dy, c->in[1], LK_NO_VAR, &a, &din[0]));
    }
    if (c->n_in > 2 && lk_call_needs_grad(c, 2))
        LK_TRY(lk__bias_gradient(c, 2, dy, &din[2]));
    return LK_OK;
}

lk_status lk_conv(lk_var x, lk_var w, lk_var b, const lk_conv_attr *attr, lk_var *out)
{
    static const lk_conv_attr defaults;
    return LK_TRACE(lk_apply(x.tape, &lk__op_conv, (lk_var[]){x, w, b}, lk_is_var(b) ? 3 : 2,
                             attr ? attr : &defaults, out));
}

lk_status lk_conv_relu(lk_var x, lk_var w, lk_var b, const lk_conv_attr *attr, lk_var *out)
{
    lk_conv_attr with = attr ? *attr : (lk_conv_attr){0};
    with.act = LK_ACT_RELU;
    return LK_TRACE(lk_conv(x, w, b, &with, out));
}

#define ATTR(...) (&(const lk_conv_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 3,
     .in = {LK_IN(3, 5, 2), LK_IN(3, 2, 2), LK_IN(2)},
     .attr = ATTR(.groups = 1),
     .shard_size = 2},
    {.n_in = 2,
     .in = {LK_IN(2, 4, 3, 2), LK_IN(3, 2, 2, 1)},
     .attr = ATTR(.window.stride = {2, 1}, .window.pad_lo = {1, 0}, .window.pad_hi = {2, 1}),
     .shard_size = 1},
    {.n_in = 3,
     .in = {LK_IN(1, 6, 4), LK_IN(2, 2, 4), LK_IN(4)},
     .attr = ATTR(.window.dilation = {2}, .window.stride = {3}, .groups = 2)},
    {.n_in = 3,
     .in = {LK_IN(2, 4, 3), LK_IN(3, 1, 6), LK_IN(6)},
     .attr = ATTR(.window.pad_lo = {1}, .window.pad_hi = {1}, .groups = 3)},
    {.n_in = 2, .in = {LK_IN(1, 2, 3, 3, 1), LK_IN(2, 2, 2, 1, 2)}, .attr = ATTR(.groups = 1)},
    {.n_in = 2, .in = {LK_IN(2, 5, 1), LK_IN(2, 1, 1)}, .attr = ATTR(.window.pad_lo = {-1})},
    {.n_in = 3,
     .in = {LK_IN(2, 5, 4, 2), LK_IN(3, 3, 2, 3), LK_IN(3)},
     .attr = ATTR(.window.pad_lo = {1, 2}, .window.pad_hi = {1, 0}, .algorithm = LK_CONV_WINOGRAD),
     .shard_size = 1},
    {.n_in = 3,
     .in = {LK_IN(3, 5, 2), LK_IN(3, 2, 2), LK_IN(2)},
     .attr = ATTR(.groups = 1, .act = LK_ACT_RELU),
     .shard_size = 2},
    {.n_in = 2,
     .in = {LK_IN(2, 4, 3, 2), LK_IN(3, 2, 2, 1)},
     .attr = ATTR(.window.stride = {2, 1}, .window.pad_lo = {1, 0}, .window.pad_hi = {2, 1},
                  .act = LK_ACT_SIGMOID),
     .shard_size = 1},
    {.n_in = 3,
     .in = {LK_IN(2, 3, 5, 2), LK_IN(3, 3, 2, 2), LK_IN(2)},
     .attr = ATTR(.window.pad_lo = {1, 0}, .window.pad_hi = {1, 1}, .algorithm = LK_CONV_WINOGRAD,
                  .act = LK_ACT_TANH),
     .shard_size = 1},
    {0}};

const lk_op lk__op_conv = {
    .name = "conv",
    .summary = "convolution of x with w, plus b, and an activation of that, in 1 to 3 dimensions, "
               "channels last",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .attr_size = sizeof(lk_conv_attr),
    .saves_in = 3,
    .infer = conv_infer,
    .forward = conv_forward,
    .backward = conv_backward,
    .samples = samples,
};
