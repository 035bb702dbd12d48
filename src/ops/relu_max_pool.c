/* relu_max_pool: max_pool of relu, in one pass: the largest of x < 0 ? 0 : x of each window.
 *
 *   index[o] = the position of the first of the largest
 *   dx[i] = sum over windows o with index[o] = i and y[o] > 0 of dy[o]
 *
 * The y of a window is that of relu at its index.  So relu's gradient, which is dy where its output is
 * above 0, can be taken for each window instead of each position.
 */
#include "ops/common/act.h"
#include "ops/common/ops.h"
#include "ops/common/windows/pool.h"

static lk_status relu_max_pool_forward(lk_call *c)
{
    return LK_TRACE(lk__max_pool_compute(c, true));
}

static lk_status relu_max_pool_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var dy;
    LK_TRY(lk__act_grad(LK_ACT_RELU, dout[0], c->out[0], &dy));
    return LK_TRACE(lk__max_pool_gradient(c, dy, &din[0]));
}

#define ATTR(...) (&(const lk_pool_attr){__VA_ARGS__})

static const lk_op_sample samples[] = {
    {.n_in = 1, .in = {LK_IN(2, 4, 2)}, .attr = ATTR(.window.kernel = {2}, .window.stride = {2})},
    {.n_in = 1,
     .in = {LK_IN(1, 4, 5, 2)},
     .attr = ATTR(.window.kernel = {2, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1},
                  .window.pad_hi = {0, 2})},
    {0}};

const lk_op lk__op_relu_max_pool = {
    .name = "relu_max_pool",
    .summary = "the largest of each window of relu of x and its position, in 1 to 3 dimensions",
    LK_ARITY(1, 2),
    .attr_size = sizeof(lk_pool_attr),
    .infer = lk__max_pool_infer,
    .forward = relu_max_pool_forward,
    .backward = relu_max_pool_backward,
    .samples = samples,
};

lk_status lk_relu_max_pool(lk_var x, const lk_pool_attr *attr, lk_var *out)
{
    lk_var both[2];
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk_apply(x.tape, &lk__op_relu_max_pool, &x, 1, attr, both));
    *out = both[0];
    return LK_OK;
}
