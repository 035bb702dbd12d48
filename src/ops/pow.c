/* pow: z = x^y, broadcast to one shape.
 *
 *   dx = dz * (y * x^(y-1)), 0 where y is 0                            pow_dx(dz, x, y)
 *   dy = dz * (x^y * log x), 0 where x^y is 0 and where x = y = 0      pow_dy(dz, x, y)
 *
 * each summed over the axes it was broadcast along.  Both are linear in dz; with r the gradient of
 * one of them, u = r * dz and m = u * x^(y-1) + pow_dy(u * y, x, y-1), the mixed derivative,
 *
 *   of pow_dx: dx = pow_dx(u * y, x, y-1), dy = m
 *   of pow_dy: dx = m, dy = pow_dy(u * log x, x, y)
 *
 * Where x < 0, dy is NaN.
 */
#include "ops/common/each.h"

static const lk_op pow_dx;

static lk_status pow_dx_apply(lk_var g, lk_var x, lk_var y, lk_var *out);

static lk_status pow_dy_apply(lk_var g, lk_var x, lk_var y, lk_var *out);

/* *out = u * x^(y-1) + pow_dy(u * y, x, y-1) */
static lk_status mixed(lk_var u, lk_var x, lk_var y, lk_var *out)
{
    lk_var less, power, bent;
    LK_TRY(lk_affine(y, 1, -1, &less));
    LK_TRY(lk_pow(x, less, &power));
    LK_TRY(lk_mul(u, power, &power));
    LK_TRY(lk_mul(u, y, &bent));
    LK_TRY(pow_dy_apply(bent, x, less, &bent));
    return LK_TRACE(lk_add(power, bent, out));
}

/* *out = the gradient of pow_dx to x, or of pow_dy to y. */
static lk_status straight(bool of_x, lk_var u, lk_var x, lk_var y, lk_var *out)
{
    lk_var less, by;
    if (of_x) {
        LK_TRY(lk_affine(y, 1, -1, &less));
        LK_TRY(lk_mul(u, y, &by));
        return LK_TRACE(pow_dx_apply(by, x, less, out));
    }
    LK_TRY(lk_log(x, &by));
    LK_TRY(lk_mul(u, by, &by));
    return LK_TRACE(pow_dy_apply(by, x, y, out));
}

static lk_status pow_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const bool of_x = c->op == &pow_dx;
    lk_var x = c->in[1], y = c->in[2], u, g;
    if (lk_call_needs_grad(c, 0)) {
        LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){dout[0], x, y}, 3, NULL, &g));
        LK_TRY(lk__each_grad(c, 0, g, &din[0]));
    }
    if (!lk_call_needs_grad(c, 1) && !lk_call_needs_grad(c, 2))
        return LK_OK;
    LK_TRY(lk_mul(dout[0], c->in[0], &u));
    for (int i = 1; i <= 2; i++)
        if (lk_call_needs_grad(c, i)) {
            if ((i == 1) == of_x)
                LK_TRY(straight(of_x, u, x, y, &g));
            else
                LK_TRY(mixed(u, x, y, &g));
            LK_TRY(lk__each_grad(c, i, g, &din[i]));
        }
    return LK_OK;
}

static const lk_op pow_dx = {
    .name = "pow_dx",
    .summary = "g * (y * x^(y-1))",
    LK_EACH_OP(3),
    .flags = LK_EACH_FLAGS,
    .saves_in = 7,
    .backward = pow_grad_backward,
    .data = &(const lk__each){.loop = LK__LOOP_POW_DX},
};

static const lk_op pow_dy = {
    .name = "pow_dy",
    .summary = "g * (x^y * log x)",
    LK_EACH_OP(3),
    .flags = LK_EACH_FLAGS,
    .saves_in = 7,
    .backward = pow_grad_backward,
    .data = &(const lk__each){.loop = LK__LOOP_POW_DY},
};

static lk_status pow_dx_apply(lk_var g, lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(g.tape, &pow_dx, (lk_var[]){g, x, y}, 3, NULL, out));
}

static lk_status pow_dy_apply(lk_var g, lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(g.tape, &pow_dy, (lk_var[]){g, x, y}, 3, NULL, out));
}

static lk_status pow_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0], c->in[1]};
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk__each_grad_apply(c, 0, &pow_dx, in, 3, NULL, &din[0]));
    if (lk_call_needs_grad(c, 1))
        LK_TRY(lk__each_grad_apply(c, 1, &pow_dy, in, 3, NULL, &din[1]));
    return LK_OK;
}

static const lk_op_sample samples[] = {
    {.n_in = 2, .in = {LK_IN_RANGE(0.3, 2.5, 2, 3), LK_IN_RANGE(-2, 3, 2, 3)}},
    {.n_in = 2, .in = {LK_IN_RANGE(0.3, 2.5, 2, 1, 3), LK_IN_RANGE(-2, 3, 4, 1)}},
    {.n_in = 2, .in = {LK_IN_RANGE(0.3, 2.5, 3), LK_IN_RANGE(-2, 3, 5, 3)}, .shard_size = 2},
    {0}};

const lk_op lk__op_pow = {
    .name = "pow",
    .summary = "x^y",
    LK_EACH_OP(2),
    .flags = LK_EACH_FLAGS,
    .saves_in = 3,
    .backward = pow_backward,
    .data = &(const lk__each){.loop = LK__LOOP_POW},
    .samples = samples,
};

lk_status lk_pow(lk_var x, lk_var y, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_pow, (lk_var[]){x, y}, 2, NULL, out));
}
