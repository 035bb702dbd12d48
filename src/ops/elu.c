/* elu: y = x < 0 ? alpha * (e^x - 1) : x
 *
 *   dx = dy where x > 0, elsewhere dy * (alpha * e^x)      elu_grad(dy, x), linear in dy
 *   of that: dx = 0 where x > 0, elsewhere u * (alpha * e^x), u = dz * dy;   elu_bend(u, x)
 *   of that: du = elu_bend(dz, x), dx = elu_bend(dz * u, x)
 */
#include "ops/common/each.h"
#include "ops/common/ops.h"

static lk_status elu_infer(lk_call *c, lk_output_spec *out)
{
    const lk_elu_attr *attr = c->attr;
    LK_TRY(lk__each_infer(c, out));
    LK_CHECK(lk__is_finite(out->dtype, attr->alpha), LK_EINVAL,
             "%s of %s with alpha %g: it must be finite there", c->op->name,
             lk_tensor_text(c->x[0]).s, attr->alpha);
    return LK_OK;
}

static lk_status elu_forward(lk_call *c)
{
    LK_TRY(lk__each_run_with(c, LK__LOOP_ELU, ((const lk_elu_attr *)c->attr)->alpha, 0));
    return LK_OK;
}

static lk_status elu_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run_with(c, LK__LOOP_ELU_GRAD, ((const lk_elu_attr *)c->attr)->alpha, 0));
    return LK_OK;
}

static lk_status elu_bend_forward(lk_call *c)
{
    LK_TRY(lk__each_run_with(c, LK__LOOP_ELU_BEND, ((const lk_elu_attr *)c->attr)->alpha, 0));
    return LK_OK;
}

static lk_status elu_bend_apply(lk_var u, lk_var x, const lk_elu_attr *attr, lk_var *out);

static lk_status elu_bend_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(elu_bend_apply(dout[0], c->in[1], c->attr, &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(elu_bend_apply(u, c->in[1], c->attr, &din[1]));
    }
    return LK_OK;
}

static const lk_op elu_bend = {
    .name = "elu_bend",
    .summary = "x > 0 ? 0 : u * (alpha * e^x)",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_elu_attr),
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = elu_bend_forward,
    .backward = elu_bend_backward,
};

static lk_status elu_bend_apply(lk_var u, lk_var x, const lk_elu_attr *attr, lk_var *out)
{
    LK_TRY(lk_apply(u.tape, &elu_bend, (lk_var[]){u, x}, 2, attr, out));
    return LK_OK;
}

static lk_status elu_grad_apply(lk_var g, lk_var x, const lk_elu_attr *attr, lk_var *out);

static lk_status elu_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(elu_grad_apply(dout[0], c->in[1], c->attr, &din[0]));
    if (lk_call_needs_grad(c, 1)) {
        lk_var u;
        LK_TRY(lk_mul(dout[0], c->in[0], &u));
        LK_TRY(elu_bend_apply(u, c->in[1], c->attr, &din[1]));
    }
    return LK_OK;
}

static const lk_op elu_grad = {
    .name = "elu_grad",
    .summary = "x > 0 ? g : g * (alpha * e^x)",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_elu_attr),
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = elu_grad_forward,
    .backward = elu_grad_backward,
};

static lk_status elu_grad_apply(lk_var g, lk_var x, const lk_elu_attr *attr, lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &elu_grad, (lk_var[]){g, x}, 2, attr, out));
    return LK_OK;
}

static lk_status elu_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &elu_grad, in, 2, c->attr, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_elu;

lk_status lk_elu(lk_var x, double alpha, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_elu, &x, 1, &(lk_elu_attr){alpha}, out));
    return LK_OK;
}

const lk_op lk__op_elu = {
    .name = "elu",
    .summary = "x < 0 ? alpha * (e^x - 1) : x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_elu_attr),
    .saves_in = 1,
    .infer = elu_infer,
    .forward = elu_forward,
    .backward = elu_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 2, 3)}, .attr = &(const lk_elu_attr){1}},
            {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 7)}, .attr = &(const lk_elu_attr){1}},
            {.n_in = 1, .in = {LK_IN_RANGE(-2, 2, 5)}, .attr = &(const lk_elu_attr){0.5}},
            {0}},
};
