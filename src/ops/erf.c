/* erf: y = error function of x
 *
 *   dx = dy * s(x), s(x) = 2/sqrt(pi) e^-(x^2)             erf_grad(dy, x)
 *   of that: d(dy) = dz * s(x), dx = -2 x (dz * dy) * s(x)
 */
#include "ops/common/unary.h"

static lk_status erf_bend(const lk_call *c, lk_var dz, lk_var *dx)
{
    lk_var u;
    LK_TRY(lk_mul(dz, c->in[0], &u));
    LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){u, c->in[1]}, 2, c->attr, &u));
    LK_TRY(lk_mul(u, c->in[1], &u));
    return LK_TRACE(lk_affine(u, -2, 0, dx));
}

const lk_op lk__op_erf = {
    .name = "erf",
    .summary = "error function of x",
    LK_EACH_OP(1),
    .flags = LK_EACH_FLAGS,
    .saves_in = 1,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_ERF, .grad = LK__LOOP_ERF_GRAD, .bend = erf_bend},
    .samples = (const lk_op_sample[]){{.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 2, 3)}},
                                      {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 1, 5)}},
                                      {0}},
};

lk_status lk_erf(lk_var x, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_erf, &x, 1, NULL, out));
}
