/* square: y = x * x
 *
 *   dx = 2 * (dy * x)                       square_grad(dy, x)
 *   of that: d(dy) = 2 * (dz * x), dx = 2 * (dz * dy)
 */
#include "ops/common/each.h"

#include <lockstep/ops.h>

static lk_status square_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SQUARE));
    return LK_OK;
}

static lk_status square_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_SQUARE_GRAD));
    return LK_OK;
}

static lk_status square_grad_apply(lk_var g, lk_var x, lk_var *out);

static lk_status square_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    for (int i = 0; i < 2; i++)
        if (lk_call_needs_grad(c, i))
            LK_TRY(square_grad_apply(dout[0], c->in[1 - i], &din[i]));
    return LK_OK;
}

static const lk_op square_grad = {
    .name = "square_grad",
    .summary = "2 * (g * x)",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = square_grad_forward,
    .backward = square_grad_backward,
};

static lk_status square_grad_apply(lk_var g, lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &square_grad, (lk_var[]){g, x}, 2, NULL, out));
    return LK_OK;
}

static lk_status square_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &square_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_square;

lk_status lk_square(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_square, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_square = {
    .name = "square",
    .summary = "x * x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .infer = lk__each_infer,
    .forward = square_forward,
    .backward = square_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN(2, 3)}},
                                      {.n_in = 1, .in = {LK_IN(1, 5)}},
                                      {0}},
};
