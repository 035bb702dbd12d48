/* avg_pool: the mean of each window.
 *
 *   y[o] = (sum over valid taps of x) / (their number, or the window's size with count_padding)
 *   dx[i] = sum over windows that cover i of dy[o] / (what y[o] was divided by)
 *
 * Both are linear, and each is the other's adjoint.  Order of the sums: pool.h.
 */
#include "ops/common/ops.h"
#include "ops/common/windows/pool.h"
#include "tensor/tensor.h"

static lk_status avg_pool_forward(lk_call *c)
{
    lk_pool_shape s = lk__pool_shape_of(c->attr, c->x[0], c->y[0]);
    return LK_TRACE(lk_pool_avg(&s, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0])));
}

/* The gradient as an op: dx of dy. */
static lk_status avg_pool_grad_forward(lk_call *c)
{
    const lk__pool_back *b = c->attr;
    lk_pool_shape s = lk__pool_shape_of(&b->pool, c->y[0], c->x[0]);
    return LK_TRACE(lk_pool_avg_backward(&s, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0])));
}

static lk_status avg_pool_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__pool_back *b = c->attr;
    return LK_TRACE(lk_avg_pool(dout[0], &b->pool, &din[0]));
}

static const lk_op avg_pool_grad = {.name = "avg_pool_grad",
                                    .summary = "the gradient of avg_pool",
                                    LK_ARITY(1, 1),
                                    .flags = LK_OP_LINEAR | LK__POOL_BACK_FLAGS,
                                    .attr_size = sizeof(lk__pool_back),
                                    .infer = lk__pool_back_infer,
                                    .forward = avg_pool_grad_forward,
                                    .backward = avg_pool_grad_backward};

static lk_status avg_pool_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk__pool_back b = {*(const lk_pool_attr *)c->attr, lk_shape_of(c->in[0])};
    return LK_TRACE(lk_apply_gradient(c, 0, &avg_pool_grad, dout, 1, &b, &din[0]));
}

#define ATTR(...) (&(const lk_pool_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 1, .in = {LK_IN(2, 5, 2)}, .attr = ATTR(.window.kernel = {2})},
    {.n_in = 1,
     .in = {LK_IN(1, 4, 5, 2)},
     .attr = ATTR(.window.kernel = {2, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1},
                  .window.pad_hi = {0, 2})},
    {.n_in = 1,
     .in = {LK_IN(2, 4, 3)},
     .attr = ATTR(.window.kernel = {3}, .window.stride = {2}, .window.pad_lo = {1},
                  .window.pad_hi = {1}, .count_padding = true)},
    {.n_in = 1,
     .in = {LK_IN(1, 3, 3, 2, 1)},
     .attr = ATTR(.window.kernel = {2, 2, 2}, .window.stride = {1, 1, 2})},
    {0}};

const lk_op lk__op_avg_pool = {
    .name = "avg_pool",
    .summary = "the mean of each window of x, in 1 to 3 dimensions, channels last",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR,
    .attr_size = sizeof(lk_pool_attr),
    .infer = lk__pool_infer,
    .forward = avg_pool_forward,
    .backward = avg_pool_backward,
    .samples = samples,
};

lk_status lk_avg_pool(lk_var x, const lk_pool_attr *attr, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_avg_pool, &x, 1, attr, out));
}
