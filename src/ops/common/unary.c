/* Ops of one input: their gradient as an op, which asks the op that it is of for loop and bend. */
#include "ops/common/unary.h"

#include "ops/common/ops.h"

#include <string.h>

lk_status lk__unary_infer(lk_call *c, lk_output_spec *out)
{
    const lk__each *each = c->op->data;
    const double number = *(const double *)c->attr;
    LK_TRY(lk__each_infer(c, out));
    LK_CHECK(lk__is_finite(out->dtype, number), LK_EINVAL,
             "%s of %s with %s %g: it must be finite there", c->op->name, lk_tensor_text(c->x[0]).s,
             each->number, number);
    return LK_OK;
}

static lk_status grad_forward(lk_call *c)
{
    const lk__unary_grad_attr *a = c->attr;
    return LK_TRACE(lk__each_run_with(c, a->of->grad, a->p[0], a->p[1]));
}

static lk_status grad_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk__each *of = ((const lk__unary_grad_attr *)c->attr)->of;
    if (lk_call_needs_grad(c, 0))
        LK_TRY(lk_apply(c->tape, c->op, (lk_var[]){dout[0], c->in[1]}, 2, c->attr, &din[0]));
    if (lk_call_needs_grad(c, 1) && of->bend)
        LK_TRY(of->bend(c, dout[0], &din[1]));
    return LK_OK;
}

/* The gradient where the slope is constant but for kinks: no second derivative reads g. */
static const lk_op kinked_grad = {
    .name = "kinked_grad",
    .summary = "g times the slope, which is constant but for kinks",
    LK_ARITY(2, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk__unary_grad_attr),
    .saves_in = 2,
    .infer = lk__each_infer,
    .forward = grad_forward,
    .backward = grad_backward,
};

static const lk_op bent_grad = {
    .name = "bent_grad",
    .summary = "g times the slope",
    LK_ARITY(2, 1),
    .flags = LK_EACH_FLAGS,
    .attr_size = sizeof(lk__unary_grad_attr),
    .saves_in = 3,
    .infer = lk__each_infer,
    .forward = grad_forward,
    .backward = grad_backward,
};

static const lk_op *grad_of(const lk__each *of)
{
    return of->bend ? &bent_grad : &kinked_grad;
}

lk_status lk__unary_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    lk_var in[] = {dout[0], c->op->saves_in & 1 ? c->in[0] : c->out[0]};
    lk__unary_grad_attr attr = {.of = c->op->data};
    if (c->op->attr_size > 0)
        memcpy(attr.p, c->attr, c->op->attr_size);
    return LK_TRACE(lk_apply_gradient(c, 0, grad_of(attr.of), in, 2, &attr, &din[0]));
}

lk_status lk__unary_grad(const lk__each *of, const double *p, lk_var g, lk_var v, lk_var *out)
{
    lk__unary_grad_attr attr = {.of = of};
    if (p)
        memcpy(attr.p, p, sizeof attr.p);
    return LK_TRACE(lk_apply(g.tape, grad_of(of), (lk_var[]){g, v}, 2, &attr, out));
}
