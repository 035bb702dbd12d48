/* elu: y = x < 0 ? alpha * (e^x - 1) : x
 *
 *   dx = dy where x > 0, elsewhere dy * (alpha * e^x)      elu_grad(dy, x), linear in dy
 *   of that: dx = 0 where x > 0, elsewhere u * (alpha * e^x), u = dz * dy;   elu_bend(u, x)
 *   of that: du = elu_bend(dz, x), dx = elu_bend(dz * u, x)
 */
#include "ops/common/unary.h"

static lk_status elu_bend(const lk_call *c, lk_var dz, lk_var *dx);

/* What has elu_bend(u, x) as its gradient, and the same bend. */
static const lk__each bent = {.grad = LK__LOOP_ELU_BEND, .bend = elu_bend};

static lk_status elu_bend(const lk_call *c, lk_var dz, lk_var *dx)
{
    const lk__unary_grad_attr *attr = c->attr;
    lk_var u;
    LK_TRY(lk_mul(dz, c->in[0], &u));
    return LK_TRACE(lk__unary_grad(&bent, attr->p, u, c->in[1], dx));
}

const lk_op lk__op_elu = {
    .name = "elu",
    .summary = "x < 0 ? alpha * (e^x - 1) : x",
    LK_ARITY(1, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_elu_attr),
    .saves_in = 1,
    .infer = lk__unary_infer,
    .forward = lk__each_forward,
    .backward = lk__unary_backward,
    .data = &(const lk__each){.loop = LK__LOOP_ELU,
                              .grad = LK__LOOP_ELU_GRAD,
                              .bend = elu_bend,
                              .number = "alpha"},
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 2, 3)}, .attr = &(const lk_elu_attr){1}},
            {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 7)}, .attr = &(const lk_elu_attr){1}},
            {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 5)}, .attr = &(const lk_elu_attr){0.5}},
            {0}},
};

lk_status lk_elu(lk_var x, double alpha, lk_var *out)
{
    return LK_TRACE(lk_apply(x.tape, &lk__op_elu, &x, 1, &(lk_elu_attr){alpha}, out));
}
