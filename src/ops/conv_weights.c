/* conv_weights: the gradient of a convolution's weights.
 *
 *   dw[t, ic, oc] = sum over samples n and positions o of
 *                   x[n, o stride - pad + t dilation, ic] dy[n, o, oc]
 *   with g the gradient of dw:  gradient of x = conv_transpose(dy, g), of dy = conv(x, g)
 *
 * The sum over samples is cut into pieces of lk_tape_shard_size(); each is one chain, see conv.h.
 */
#include "kernel/conv/weights.h"
#include "ops/common/ops.h"
#include "ops/common/windows/conv.h"
#include "tensor/tensor.h"

static lk_status conv_weights_infer(lk_call *c, lk_output_spec *out)
{
    const lk_conv_attr *a = c->attr;
    const lk_tensor *x = c->x[0], *dy = c->x[1];
    int ndim = 0;
    int64_t groups = 1;
    LK_TRY(lk__conv_begin(c, a, &ndim, &groups));
    LK_TRY(lk__conv_no_extra(c, a, ndim));
    LK_TRY(lk__conv_related(c, a, ndim));
    int last = ndim + 1;
    LK_CHECK(dy->shape.dim[last] % groups == 0, LK_EINVAL,
             "conv_weights of %s and %s: groups is %lld, must divide the channels of both",
             lk_tensor_text(x).s, lk_tensor_text(dy).s, (long long)groups);
    out->dtype = x->dtype;
    out->shape.ndim = ndim + 2;
    memcpy(out->shape.dim, a->window.kernel, (size_t)ndim * sizeof a->window.kernel[0]);
    out->shape.dim[ndim] = x->shape.dim[last] / groups;
    out->shape.dim[last] = dy->shape.dim[last];
    return LK_OK;
}

static lk_status conv_weights_forward(lk_call *c)
{
    const lk_conv_attr *a = c->attr;
    lk_conv_plan *plan = NULL;
    int64_t bytes;
    void *room = NULL;
    LK_TRY(lk__conv_plan_of(c, a, c->x[0], c->x[1], a->window.kernel, &plan));
    LK_TRY(lk__conv_weights_room(plan, &bytes));
    LK_TRY(lk_call_scratch(c, bytes, &room));
    return LK_TRACE(lk__conv_weights_in(plan, room, bytes, lk__tensor_start(c->x[0]),
                                        lk__tensor_start(c->x[1]), c->accumulate,
                                        lk__tensor_start(c->y[0])));
}

static lk_status conv_weights_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_conv_attr a = *(const lk_conv_attr *)c->attr;
    lk_shape x = lk_shape_of(c->in[0]), y = lk_shape_of(c->in[1]);
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk_conv(c->in[0], dout[0], LK_NO_VAR, &a, &din[1]));
    if (lk_call_needs_grad(c, 0)) {
        lk__conv_extra(&a, x.ndim - 2, &x.dim[1], &y.dim[1], a.window.kernel);
        LK_TRY(lk_conv_transpose(c->in[1], dout[0], LK_NO_VAR, &a, &din[0]));
    }
    return LK_OK;
}

#define ATTR(...) (&(const lk_conv_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 2,
     .in = {LK_IN(5, 4, 1), LK_IN(5, 2, 2)},
     .attr = ATTR(.window.kernel = {3}),
     .shard_size = 2},
    {.n_in = 2,
     .in = {LK_IN(2, 4, 3, 2), LK_IN(2, 2, 2, 1)},
     .attr = ATTR(.window = {.kernel = {3, 2}, .stride = {2, 1}, .pad_lo = {1, 0}}),
     .shard_size = 1},
    {.n_in = 2,
     .in = {LK_IN(1, 6, 4), LK_IN(1, 2, 2)},
     .attr = ATTR(.window = {.kernel = {2}, .stride = {3}, .dilation = {2}}, .groups = 2)},
    {.n_in = 2,
     .in = {LK_IN(1, 2, 3, 2, 1), LK_IN(1, 1, 2, 1, 2)},
     .attr = ATTR(.window.kernel = {2, 2, 2})},
    {.n_in = 2,
     .in = {LK_IN(2, 4, 5, 2), LK_IN(2, 4, 3, 2)},
     .attr = ATTR(.window = {.kernel = {3, 3}, .pad_lo = {1}, .pad_hi = {1}},
                  .algorithm = LK_CONV_WINOGRAD),
     .shard_size = 1},
    {0}};

const lk_op lk__op_conv_weights = {
    .name = "conv_weights",
    .summary = "the gradient of a convolution's weights, from its x and dy",
    LK_ARITY(2, 1),
    .flags = LK_OP_ACCUMULATES,
    .attr_size = sizeof(lk_conv_attr),
    .saves_in = 3,
    .infer = conv_weights_infer,
    .forward = conv_weights_forward,
    .backward = conv_weights_backward,
    .samples = samples,
};

lk_status lk_conv_weights(lk_var x, lk_var dy, const lk_conv_attr *attr, const int64_t *kernel,
                          lk_var *out)
{
    return LK_TRACE(lk__conv_weights_apply(&lk__op_conv_weights, x, dy, attr, kernel, out));
}
