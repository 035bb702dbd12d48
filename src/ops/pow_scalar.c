/* pow_scalar: y = x^p for a constant exponent p; also for negative x if p is an integer.
 *
 *   dx = dy * (p * x^(p-1)), 0 where p is 0                pow_scalar_grad(dy, x; p)
 *   of that: d(dy) = dz * (p * x^(p-1)), dx = p * pow_scalar_grad(dz * dy, x; p-1)
 *
 * x^1, x^2 and x^-1 are x, x * x and 1 / x.
 */
#include "ops/common/unary.h"

static lk_status pow_scalar_forward(lk_call *c)
{
    double p = ((const lk_pow_scalar_attr *)c->attr)->exponent;
    lk__loop loop = p == 1    ? LK__LOOP_COPY
                    : p == 2  ? LK__LOOP_SQUARE
                    : p == -1 ? LK__LOOP_RECIP
                              : LK__LOOP_POW_SCALAR;
    return LK_TRACE(lk__each_run_with(c, loop, 0, p));
}

static lk_status pow_scalar_grad_forward(lk_call *c)
{
    double p = ((const lk_pow_scalar_attr *)c->attr)->exponent;
    lk__loop loop = p == 0   ? LK__LOOP_FILL
                    : p == 2 ? LK__LOOP_POW_SCALAR_GRAD_OF_2
                    : p == 3 ? LK__LOOP_POW_SCALAR_GRAD_OF_3
                             : LK__LOOP_POW_SCALAR_GRAD;
    return LK_TRACE(lk__each_run_with(c, loop, p, p - 1));
}

static lk_status pow_scalar_grad_apply(lk_var g, lk_var x, double exponent, lk_var *out);

static lk_status pow_scalar_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const double p = ((const lk_pow_scalar_attr *)c->attr)->exponent;
    if (lk_call_needs_grad(c, 0))
        LK_TRY(pow_scalar_grad_apply(dout[0], c->in[1], p, &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(pow_scalar_grad_apply(u, c->in[1], p - 1, &u));
        LK_TRY(lk_affine(u, p, 0, &din[1]));
    }
    return LK_OK;
}

static const lk_op pow_scalar_grad = {
    .name = "pow_scalar_grad",
    .summary = "g * (p * x^(p-1))",
    LK_ARITY(2, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_pow_scalar_attr),
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = pow_scalar_grad_forward,
    .backward = pow_scalar_grad_backward,
};

static lk_status pow_scalar_grad_apply(lk_var g, lk_var x, double exponent, lk_var *out)
{
    return LK_TRACE(lk_apply(g.tape, &pow_scalar_grad, (lk_var[]){g, x}, 2,
                             &(lk_pow_scalar_attr){exponent}, out));
}

static lk_status pow_scalar_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    return LK_TRACE(lk_apply_gradient(c, 0, &pow_scalar_grad, in, 2, c->attr, &din[0]));
}

const lk_op lk__op_pow_scalar = {
    .name = "pow_scalar",
    .summary = "x^p for a constant p",
    LK_ARITY(1, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_pow_scalar_attr),
    .saves_in = 1,
    .infer = lk__unary_infer,
    .forward = pow_scalar_forward,
    .backward = pow_scalar_backward,
    .data = &(const lk__each){.number = "exponent"},
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_pow_scalar_attr){2}},
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_pow_scalar_attr){3}},
            {.n_in = 1, .in = {LK_IN(5)}, .attr = &(const lk_pow_scalar_attr){1}},
            {.n_in = 1, .in = {LK_IN(5)}, .attr = &(const lk_pow_scalar_attr){0}},
            {.n_in = 1,
             .in = {LK_IN_RANGE(-2, -0.3, 1, 5)},
             .attr = &(const lk_pow_scalar_attr){-1}},
            {.n_in = 1, .in = {LK_IN_RANGE(-2, -0.3, 5)}, .attr = &(const lk_pow_scalar_attr){-3}},
            {.n_in = 1, .in = {LK_IN_RANGE(0.3, 2, 5)}, .attr = &(const lk_pow_scalar_attr){0.5}},
            {.n_in = 1, .in = {LK_IN_RANGE(0.3, 2, 5)}, .attr = &(const lk_pow_scalar_attr){-1.7}},
            {0}},
};

lk_status lk_pow_scalar(lk_var x, double exponent, lk_var *out)
{
    return LK_TRACE(
        lk_apply(x.tape, &lk__op_pow_scalar, &x, 1, &(lk_pow_scalar_attr){exponent}, out));
}
