/* leaky_relu: y = x < 0 ? slope * x : x
 *
 *   dx = dy where x > 0, elsewhere slope * dy, also at 0   leaky_relu_grad(dy, x), linear in dy
 */
#include "ops/common/each.h"
#include "ops/common/ops.h"

static lk_status leaky_relu_infer(lk_call *c, lk_output_spec *out)
{
    const lk_leaky_relu_attr *attr = c->attr;
    LK_TRY(lk__each_infer(c, out));
    LK_CHECK(lk__is_finite(out->dtype, attr->slope), LK_EINVAL,
             "%s of %s with slope %g: it must be finite there", c->op->name,
             lk_tensor_text(c->x[0]).s, attr->slope);
    return LK_OK;
}

static lk_status leaky_relu_forward(lk_call *c)
{
    LK_TRY(
        lk__each_run_with(c, LK__LOOP_LEAKY_RELU, ((const lk_leaky_relu_attr *)c->attr)->slope, 0));
    return LK_OK;
}

static lk_status leaky_relu_grad_forward(lk_call *c)
{
    LK_TRY(lk__each_run_with(c, LK__LOOP_LEAKY_RELU_GRAD,
                             ((const lk_leaky_relu_attr *)c->attr)->slope, 0));
    return LK_OK;
}

static lk_status leaky_relu_grad_apply(lk_var g, lk_var x, const lk_leaky_relu_attr *attr,
                                       lk_var *out);

static lk_status leaky_relu_grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    if (lk_call_needs_grad(c, 0))
        LK_TRY(leaky_relu_grad_apply(dout[0], c->in[1], c->attr, &din[0]));
    return LK_OK;
}

static const lk_op leaky_relu_grad = {
    .name = "leaky_relu_grad",
    .summary = "g where x > 0, elsewhere slope * g",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_leaky_relu_attr),
    .saves_in = 2,
    .infer = lk__each_infer,
    .forward = leaky_relu_grad_forward,
    .backward = leaky_relu_grad_backward,
};

static lk_status leaky_relu_grad_apply(lk_var g, lk_var x, const lk_leaky_relu_attr *attr,
                                       lk_var *out)
{
    LK_TRY(lk_apply(g.tape, &leaky_relu_grad, (lk_var[]){g, x}, 2, attr, out));
    return LK_OK;
}

static lk_status leaky_relu_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->in[0]};
    LK_TRY(lk_apply_gradient(c, 0, &leaky_relu_grad, in, 2, c->attr, &din[0]));
    return LK_OK;
}

extern const lk_op lk__op_leaky_relu;

lk_status lk_leaky_relu(lk_var x, double slope, lk_var *out)
{
    LK_TRY(lk_apply(x.tape, &lk__op_leaky_relu, &x, 1, &(lk_leaky_relu_attr){slope}, out));
    return LK_OK;
}

const lk_op lk__op_leaky_relu = {
    .name = "leaky_relu",
    .summary = "x < 0 ? slope * x : x",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk_leaky_relu_attr),
    .saves_in = 1,
    .infer = leaky_relu_infer,
    .forward = leaky_relu_forward,
    .backward = leaky_relu_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &(const lk_leaky_relu_attr){0.1}},
            {.n_in = 1, .in = {LK_IN(7)}, .attr = &(const lk_leaky_relu_attr){0.1}},
            {0}},
};
