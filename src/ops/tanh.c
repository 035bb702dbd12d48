/* tanh: y = hyperbolic tangent of x
 *
 *   dx = dy * (1 - y^2)                                    tanh_grad(dy, y)
 *   of that: d(dy) = dz * (1 - y^2), d(y) = -2 (dz * dy) * y
 */
#include "ops/common/each.h"
#include "ops/common/ops.h"

static lk_status tanh_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_TANH));
    return LK_OK;
}

static lk_status tanh_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_TANH_GRAD));
    return LK_OK;
}

static lk_status tanh_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__tanh_grad(dout[0], c->in[1], &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(lk_mul(u, c->in[1], &u));
        LK_TRY(lk_affine(u, -2, 0, &din[1]));
    }
    return LK_OK;
}

static const lk_op tanh_grad = {
    .name = "tanh_grad",
    .summary = "g * (1 - y^2)",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = tanh_grad_forward,
    .backward = tanh_grad_backward,
};

lk_status lk__tanh_grad(lk_var g, lk_var y, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &tanh_grad, (lk_var[]){g, y}, 2, NULL, out));
    return LK_OK;
}

static lk_status tanh_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->out[0]};
    LK_TRY(lk_apply_gradient(c, 0, &tanh_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_tanh;

lk_status lk_tanh(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_tanh, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_tanh = {
    .name = "tanh",
    .summary = "hyperbolic tangent of x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .infer = lk__each_infer,
    .forward = tanh_forward,
    .backward = tanh_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 1, 5)}},
                                      {0}},
};
