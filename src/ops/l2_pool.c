/* l2_pool: the Euclidean norm of each window.
 *
 *   y[o] = sqrt(sum over valid taps of x^2)
 *   dx[i] = x[i] (sum over windows o that cover i, y[o] not 0, of dy[o] / y[o])
 *
 * A window of zeros has no derivative; its gradient is 0.  The second derivatives, with g the
 * gradient of dx and u[o] = (sum over the window of x g) / y[o], 0 where y[o] is 0:
 *
 *   gradient of x = the formula of dx with g for x;  of dy = u;  of y = - u dy / y
 */
#include "ops/common/each.h"
#include "ops/common/windows/pool.h"
#include "tensor/tensor.h"

static lk_status l2_pool_forward(lk_call *c)
{
    lk_pool_shape s = lk__pool_shape_of(c->attr, c->x[0], c->y[0]);
    return LK_TRACE(lk_pool_l2(&s, lk__tensor_start(c->x[0]), lk__tensor_start(c->y[0])));
}

/* ---- ratio: z = p a / b, 0 where b is 0 ---- */

static const lk_op ratio_op;

static lk_status ratio(lk_var a, lk_var b, double p, lk_var *out)
{
    return LK_TRACE(lk_apply(a.tape, &ratio_op, (lk_var[]){a, b}, 2, &p, out));
}

static lk_status ratio_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(ratio(dout[0], c->in[1], *(const double *)c->attr, &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var g;
        LK_TRY(lk_mul(dout[0], c->out[0], &g));
        LK_TRY(ratio(g, c->in[1], -1, &din[1]));
    }
    return LK_OK;
}

static const lk_op ratio_op = {.name = "l2_pool_ratio",
                               .summary = "p a / b, 0 where b is 0",
                               LK_EACH_OP(2),
                               .flags = LK_EACH_FLAGS,
                               .attr_size = sizeof(double),
                               .saves_in = 2,
                               .backward = ratio_backward,
                               .data = &(const lk__each){.loop = LK__LOOP_RATIO}};

/* ---- the gradient as an op: dx of x, y and dy ---- */

static lk_status l2_pool_grad_forward(lk_call *c)
{
    lk_pool_shape s = lk__pool_shape_of(c->attr, c->x[0], c->x[1]);
    return LK_TRACE(lk_pool_l2_backward(&s, lk__tensor_start(c->x[0]), lk__tensor_start(c->x[1]),
                                        lk__tensor_start(c->x[2]), lk__tensor_start(c->y[0])));
}

static lk_status l2_pool_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var x = c->in[0], y = c->in[1], dy = c->in[2], u;
    lk_pool_attr a = *(const lk_pool_attr *)c->attr;
    double taps = 1;
    for (int d = 0; d < lk_shape_of(x).ndim - 2; d++)
        taps *= (double)a.window.kernel[d];
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){dout[0], y, dy}, 3, c->attr, &din[0]));
    if (!lk_call_needs_grad(c, 1) && !lk_call_needs_grad(c, 2))
        return LK_OK;
    a.count_padding = true;
    LK_TRY(lk_mul(x, dout[0], &u));
    LK_TRY(lk_avg_pool(u, &a, &u));
    LK_TRY(ratio(u, y, taps, &u));
    din[2] = u;
    if (lk_call_needs_grad(c, 1)) {
        LK_TRY(lk_mul(u, dy, &u));
        LK_TRY(ratio(u, y, -1, &din[1]));
    }
    return LK_OK;
}

static const lk_op l2_pool_grad = {.name = "l2_pool_grad",
                                   .summary = "the gradient of l2_pool",
                                   LK_ARITY(3, 1),
                                   .attr_size = sizeof(lk_pool_attr),
                                   .saves_in = 7,
                                   .infer = lk__same_infer,
                                   .forward = l2_pool_grad_forward,
                                   .backward = l2_pool_grad_backward};

static lk_status l2_pool_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, &l2_pool_grad, (lk_var[]){c->in[0], c->out[0], dout[0]}, 3,
                             c->attr, &din[0]));
}

#define ATTR(...) (&(const lk_pool_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 1, .in = {LK_IN(2, 5, 2)}, .attr = ATTR(.window.kernel = {2})},
    {.n_in = 1,
     .in = {LK_IN(1, 4, 5, 1)},
     .attr = ATTR(.window.kernel = {2, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1},
                  .window.pad_hi = {0, 2})},
    {.n_in = 1,
     .in = {LK_IN(1, 3, 2, 2, 2)},
     .attr = ATTR(.window.kernel = {2, 2, 2}, .window.stride = {1, 1, 2})},
    {.n_in = 1, .in = {LK_IN_RANGE(0.2, 1, 2, 3, 2)}, .attr = ATTR(.window.kernel = {1})},
    {0}};

const lk_op lk__op_l2_pool = {
    .name = "l2_pool",
    .summary = "the Euclidean norm of each window of x, in 1 to 3 dimensions, channels last",
    LK_ARITY(1, 1),
    .attr_size = sizeof(lk_pool_attr),
    .saves_in = 1,
    .infer = lk__pool_infer,
    .forward = l2_pool_forward,
    .backward = l2_pool_backward,
    .samples = samples,
};

lk_status lk_l2_pool(lk_var x, const lk_pool_attr *attr, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_l2_pool, &x, 1, attr, out));
}
