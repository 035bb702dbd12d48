/* gelu: y = x * P(x) and its slope s = P(x) + x * f(x), from one exponential, where
 *
 *   P(x) = (1 + erf(x / sqrt 2)) / 2, f(x) = e^-(x^2 / 2) / sqrt(2 pi)
 *
 *   dx = dy * s + ds * ((2 - x^2) * f(x))
 *
 * lk_gelu() gives y; s is kept for backward, where there will be one.
 */
#include "ops/common/each.h"

static lk_status gelu_infer(lk_call *c, lk_output_spec *out)
{
    LK_TRY(lk__each_infer(c, out));
    out[1] = out[0];
    return LK_OK;
}

/* *out = (2 - x^2) * f(x); beyond 40 it is 0 and no longer depends on x. */
static lk_status bend(lk_var x, lk_var *out)
{
    const double log_root = 0.9189385332046727; /* log sqrt(2 pi) */
    lk_var square, f;
    LK_TRY(lk_clip(x, -40, 40, &x));
    LK_TRY(lk_square(x, &square));
    LK_TRY(lk_affine(square, -0.5, -log_root, &f));
    LK_TRY(lk_exp(f, &f));
    LK_TRY(lk_affine(square, -1, 2, &square));
    return LK_TRACE(lk_mul(square, f, out));
}

/* Of s a gradient comes in second derivatives alone. */
static lk_status gelu_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var bent, of_y;
    if (!lk_is_var(dout[1])) {
        lk_var in[] = {dout[0], c->out[1]};
        return LK_TRACE(lk_apply_gradient(c, 0, &lk__op_mul, in, 2, NULL, &din[0]));
    }
    LK_TRY(bend(c->in[0], &bent));
    LK_TRY(lk_mul(dout[1], bent, &din[0]));
    if (lk_is_var(dout[0])) {
        LK_TRY(lk_mul(dout[0], c->out[1], &of_y));
        LK_TRY(lk_add(of_y, din[0], &din[0]));
    }
    return LK_OK;
}

/* y alone, for a call that nothing will go back through. */
static const lk_op gelu_value = {
    .name = "gelu_value",
    .summary = "x/2 (1 + erf(x / sqrt 2))",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .data = &(const lk__each){.loop = LK__LOOP_GELU},
};

const lk_op lk__op_gelu = {
    .name = "gelu",
    .summary = "x/2 (1 + erf(x / sqrt 2)), and its slope",
    LK_ARITY(1, 2),
    .flags = LK_OP_STRIDED,
    .saves_in = 1,
    .infer = gelu_infer,
    .forward = lk__each_forward,
    .backward = gelu_backward,
    .data = &(const lk__each){.loop = LK__LOOP_GELU_SLOPE},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-3, 3, 1, 5)}},
                                      {0}},
};

lk_status lk_gelu(lk_var x, lk_var *out)
{
    lk_var y[2] = {LK_NO_VAR, LK_NO_VAR};
    bool goes_back = lk_needs_grad(x) && lk_tape_is_recording(x.tape);
    LK_TRY(lk_apply(x.tape, goes_back ? &lk__op_gelu : &gelu_value, &x, 1, NULL, y));
    *out = y[0];
    return LK_OK;
}
