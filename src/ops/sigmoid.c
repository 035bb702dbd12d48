/* sigmoid: y = 1 / (1 + e^-x)
 *
 *   dx = dy * (y * (1 - y))                                sigmoid_grad(dy, y)
 *   of that: d(dy) = dz * (y * (1 - y)), d(y) = (dz * dy) * (1 - 2 y)
 */
#include "ops/common/each.h"
#include "ops/common/ops.h"

static lk_status sigmoid_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SIGMOID));
    return LK_OK;
}

static lk_status sigmoid_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SIGMOID_GRAD));
    return LK_OK;
}

static lk_status sigmoid_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__sigmoid_grad(dout[0], c->in[1], &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u, bend;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(lk_affine(c->in[1], -2, 1, &bend));
        LK_TRY(lk_mul(u, bend, &din[1]));
    }
    return LK_OK;
}

static const lk_op sigmoid_grad = {
    .name = "sigmoid_grad",
    .summary = "g * (y * (1 - y))",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = sigmoid_grad_forward,
    .backward = sigmoid_grad_backward,
};

lk_status lk__sigmoid_grad(lk_var g, lk_var y, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &sigmoid_grad, (lk_var[]){g, y}, 2, NULL, out));
    return LK_OK;
}

static lk_status sigmoid_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->out[0]};
    LK_TRY(lk_apply_gradient(c, 0, &sigmoid_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_sigmoid;

lk_status lk_sigmoid(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_sigmoid, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_sigmoid = {
    .name = "sigmoid",
    .summary = "1 / (1 + e^-x)",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .infer = lk__each_infer,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 1, 5)}},
                                      {0}},
};
