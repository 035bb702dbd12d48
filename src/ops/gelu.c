/* gelu: y = x * P(x), P(x) = (1 + erf(x / sqrt 2)) / 2
 *
 *   dx = dy * (P(x) + x * f(x)), f(x) = e^-(x^2 / 2) / sqrt(2 pi)      gelu_grad(dy, x)
 *   of that: d(dy) = gelu_grad(dz, x), dx = (dz * dy) * ((2 - x^2) * f(x))
 *
 * P(x) is taken as y / x, which is exact to the last places also where P is tiny and 1 + erf has
 * lost them; beyond 40 the slope is 0 or 1 and no longer depends on x.
 */
#include "ops/common/each.h"

#include <lockstep/ops.h>

static lk_status gelu_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_GELU));
    return LK_OK;
}

static lk_status gelu_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_GELU_GRAD));
    return LK_OK;
}

/* *out = (2 - x^2) * f(x) */
static lk_status bend(lk_var x, lk_var *out)
{
    const double log_root = 0.9189385332046727; /* log sqrt(2 pi) */
    lk_var square, f;
    LK_TRY(lk_clip(x, -40, 40, &x));
    LK_TRY(lk_square(x, &square));
    LK_TRY(lk_affine(square, -0.5, -log_root, &f));
    LK_TRY(lk_exp(f, &f));
    LK_TRY(lk_affine(square, -1, 2, &square));
    LK_TRY(lk_mul(square, f, out));
    return LK_OK;
}

static lk_status gelu_grad_apply(lk_var g, lk_var x, lk_var *out);

static lk_status gelu_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(gelu_grad_apply(dout[0], c->in[1], &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u, b;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(bend(c->in[1], &b));
        LK_TRY(lk_mul(u, b, &din[1]));
    }
    return LK_OK;
}

static const lk_op gelu_grad = {
    .name = "gelu_grad",
    .summary = "g * (P(x) + x * f(x))",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = gelu_grad_forward,
    .backward = gelu_grad_backward,
};

static lk_status gelu_grad_apply(lk_var g, lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &gelu_grad, (lk_var[]){g, x}, 2, NULL, out));
    return LK_OK;
}

static lk_status gelu_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &gelu_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_gelu;

lk_status lk_gelu(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_gelu, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_gelu = {
    .name = "gelu",
    .summary = "x/2 (1 + erf(x / sqrt 2))",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .infer = lk__each_infer,
    .forward = gelu_forward,
    .backward = gelu_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 1, 5)}},
                                      {0}},
};
