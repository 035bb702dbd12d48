/* abs: y = |x|
 *
 *   dx = dy where x > 0, -dy where x < 0, 0 at 0           abs_grad(dy, x), linear in dy
 */
#include "ops/common/each.h"

#include <lockstep/ops.h>

static lk_status abs_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_ABS));
    return LK_OK;
}

static lk_status abs_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_ABS_GRAD));
    return LK_OK;
}

static lk_status abs_grad_apply(lk_var g, lk_var x, lk_var *out);

static lk_status abs_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(abs_grad_apply(dout[0], c->in[1], &din[0]));
    return LK_OK;
}

static const lk_op abs_grad = {
    .name = "abs_grad",
    .summary = "g times the sign of x",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 2,
    .infer = lk__each_infer,
    .forward = abs_grad_forward,
    .backward = abs_grad_backward,
};

static lk_status abs_grad_apply(lk_var g, lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &abs_grad, (lk_var[]){g, x}, 2, NULL, out));
    return LK_OK;
}

static lk_status abs_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &abs_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_abs;

lk_status lk_abs(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_abs, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_abs = {
    .name = "abs",
    .summary = "|x|",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .infer = lk__each_infer,
    .forward = abs_forward,
    .backward = abs_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}},
                                      {.n_in = 1, .in = {LK_IN(7)}},
                                      {0}},
};
