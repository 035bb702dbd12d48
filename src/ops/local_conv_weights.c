/* local_conv_weights: the gradient of the weights of an untied convolution.
 *
 *   dw[o, t, ic, oc] = sum over samples n of x[n, o stride - pad + t dilation, ic] dy[n, o, oc]
 *   with g the gradient of dw:  gradient of x = local_conv_transpose(dy, g), of dy = local_conv(x, g)
 *
 * The sum is cut into pieces of lk_tape_shard_size(); each is one chain.
 */
#include "ops/common/ops.h"
#include "ops/common/windows/conv.h"
#include "ops/common/windows/untied.h"
#include "tensor/tensor.h"

static lk_status local_conv_weights_infer(lk_call *c, lk_output_spec *out)
{
    const lk_conv_attr *a = c->attr;
    int ndim = 0;
    LK_TRY(lk__untied_begin(c, a, &ndim));
    LK_TRY(lk__conv_no_extra(c, a, ndim));
    LK_TRY(lk__conv_related(c, a, ndim));
    out->dtype = c->x[0]->dtype;
    out->shape = lk__untied_weights(&c->x[0]->shape, &c->x[1]->shape, a->window.kernel);
    return LK_OK;
}

static lk_status local_conv_weights_forward(lk_call *c)
{
    const lk_conv_attr *a = c->attr;
    return LK_TRACE(lk__untied_run(c, a, LK_UNTIED_W, c->x[0], c->y[0], c->x[1]));
}

static lk_status local_conv_weights_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_conv_attr a = *(const lk_conv_attr *)c->attr;
    lk_shape x = lk_shape_of(c->in[0]), y = lk_shape_of(c->in[1]);
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_local_conv(c->in[0], dout[0], &a, &din[1]));
    if (lk_call_needs_grad(c, 0)) {
        lk__conv_extra(&a, x.ndim - 2, &x.dim[1], &y.dim[1], a.window.kernel);
        LK_TRY(lk_local_conv_transpose(c->in[1], dout[0], &a, &din[0]));
    }
    return LK_OK;
}

#define ATTR(...) (&(const lk_conv_attr){__VA_ARGS__})

const lk_op lk__op_local_conv_weights = {
    .name = "local_conv_weights",
    .summary = "the gradient of the weights of local_conv, from its x and dy",
    LK_ARITY(2, 1),
    .attr_size = sizeof(lk_conv_attr),
    .saves_in = 3,
    .infer = local_conv_weights_infer,
    .forward = local_conv_weights_forward,
    .backward = local_conv_weights_backward,
    .samples = (const lk_op_sample[]){{.n_in = 2,
                                       .in = {LK_IN(5, 4, 1), LK_IN(5, 3, 2)},
                                       .attr = ATTR(.window.kernel = {2}),
                                       .shard_size = 2},
                                      {.n_in = 2,
                                       .in = {LK_IN(2, 3, 3, 1), LK_IN(2, 2, 2, 1)},
                                       .attr = ATTR(.window = {.kernel = {3, 2},
                                                               .stride = {2, 1},
                                                               .pad_lo = {1, 0},
                                                               .pad_hi = {1, 0}})},
                                      {0}},
};

lk_status lk_local_conv_weights(lk_var x, lk_var dy, const lk_conv_attr *attr,
                                const int64_t *kernel, lk_var *out)
{
    return LK_TRACE(lk__conv_weights_apply(&lk__op_local_conv_weights, x, dy, attr, kernel, out));
}

lk_status lk__untied_weights_gradient(const lk_call *c, lk_var x, lk_var y, lk_var *dw)
{
    lk_conv_attr a = *(const lk_conv_attr *)c->attr;
    lk_shape w = lk_shape_of(c->in[1]);
    int ndim = w.ndim / 2 - 1;
    memset(a.extra, 0, sizeof a.extra);
    memcpy(a.window.kernel, &w.dim[ndim], (size_t)ndim * sizeof a.window.kernel[0]);
    return LK_TRACE(
        lk_apply_gradient(c, 1, &lk__op_local_conv_weights, (lk_var[]){x, y}, 2, &a, dw));
}
