/* erf: y = error function of x
 *
 *   dx = dy * s(x), s(x) = 2/sqrt(pi) e^-(x^2)             erf_grad(dy, x)
 *   of that: d(dy) = dz * s(x), dx = -2 x (dz * dy) * s(x)
 */
#include "ops/common/each.h"

#include <lockstep/ops.h>

static lk_status erf_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_ERF));
    return LK_OK;
}

static lk_status erf_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run(c, LK__LOOP_ERF_GRAD));
    return LK_OK;
}

static lk_status erf_grad_apply(lk_var g, lk_var x, lk_var *out);

static lk_status erf_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(erf_grad_apply(dout[0], c->in[1], &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(erf_grad_apply(u, c->in[1], &u));
        LK_TRY(lk_mul(u, c->in[1], &u));
        LK_TRY(lk_affine(u, -2, 0, &din[1]));
    }
    return LK_OK;
}

static const lk_op erf_grad = {
    .name = "erf_grad",
    .summary = "g * 2/sqrt(pi) e^-(x^2)",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = erf_grad_forward,
    .backward = erf_grad_backward,
};

static lk_status erf_grad_apply(lk_var g, lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &erf_grad, (lk_var[]){g, x}, 2, NULL, out));
    return LK_OK;
}

static lk_status erf_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &erf_grad, in, 2, NULL, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_erf;

lk_status lk_erf(lk_var x, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_erf, &x, 1, NULL, out));
    return LK_OK;
}

const lk_op lk__op_erf = {
    .name = "erf",
    .summary = "error function of x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .infer = lk__each_infer,
    .forward = erf_forward,
    .backward = erf_backward,
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 1, 5)}},
                                      {0}},
};
