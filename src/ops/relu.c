/* relu: y = x < 0 ? 0 : x
 *
 *   dx = dy where y > 0, elsewhere 0, also at 0            relu_grad(dy, y), linear in dy
 */
#include "ops/common/each.h"
#include "ops/common/ops.h"

#include <lockstep/ops.h>

static lk_status relu_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_RELU));
    return LK_OK;
}

static lk_status relu_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_RELU_GRAD));
    return LK_OK;
}

static lk_status relu_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__relu_grad(dout[0], c->in[1], &din[0]));
    return LK_OK;
}

static const lk_op relu_grad = {
    .name = "relu_grad",
    .summary = "g where y > 0, elsewhere 0",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 2,
    .infer = lk__each_infer,
    .forward = relu_grad_forward,
    .backward = relu_grad_backward,
};

lk_status lk__relu_grad(lk_var g, lk_var y, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &relu_grad, (lk_var[]){g, y}, 2, NULL, out));
    return LK_OK;
}

static lk_status relu_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->out[0]};
    LK_TRY(lk_apply_gradient(c, 0, &relu_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_relu;

lk_status lk_relu(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_relu, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_relu = {
    .name = "relu",
    .summary = "x < 0 ? 0 : x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .infer = lk__each_infer,
    .forward = relu_forward,
    .backward = relu_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}},
                                      {.n_in = 1, .in = {LK_IN(7)}},
                                      {0}},
};
