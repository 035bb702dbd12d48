/* sqrt: y = square root of x
 *
 *   dx = dy / (2 y)                                        sqrt_grad(dy, y)
 *   of that, with z = dy / (2 y): d(dy) = dz / (2 y), d(y) = -(dz * (z / y))
 */
#include "ops/common/each.h"
#include "ops/common/grads.h"

#include <lockstep/ops.h>

static lk_status sqrt_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SQRT));
    return LK_OK;
}

static lk_status sqrt_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SQRT_GRAD));
    return LK_OK;
}

static lk_status sqrt_grad_apply(lk_var g, lk_var y, lk_var *out);

static lk_status sqrt_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(sqrt_grad_apply(dout[0], c->in[1], &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var q;
        LK_TRY(lk_div(c->out[0], c->in[1], &q));
        LK_TRY(lk__neg_mul(dout[0], q, &din[1]));
    }
    return LK_OK;
}

static const lk_op sqrt_grad = {
    .name = "sqrt_grad",
    .summary = "g / (2 y)",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 2,
    .infer = lk__each_infer,
    .forward = sqrt_grad_forward,
    .backward = sqrt_grad_backward,
};

static lk_status sqrt_grad_apply(lk_var g, lk_var y, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &sqrt_grad, (lk_var[]){g, y}, 2, NULL, out));
    return LK_OK;
}

static lk_status sqrt_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->out[0]};
    LK_TRY(lk_apply_gradient(c, 0, &sqrt_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_sqrt;

lk_status lk_sqrt(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_sqrt, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_sqrt = {
    .name = "sqrt",
    .summary = "square root of x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .infer = lk__each_infer,
    .forward = sqrt_forward,
    .backward = sqrt_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(0.2, 4, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(0.2, 4, 1, 5)}},
                                      {0}},
};
