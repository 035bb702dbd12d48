/* stack: values of one shape one after the other along a new axis.
 *
 *   y[..., k, ...] = xk
 *   dxk = dy[..., k, ...]
 */
#include "ops/common/ops.h"
#include "ops/common/parts.h"

#include <limits.h>

static lk_status stack_infer(lk_call *c, lk_output_spec *out)
{
    const lk_concat_attr *a = c->attr;
    const lk_tensor *first = c->x[0];
    int ndim = first->shape.ndim;
    LK_CHECK(a->axis >= 0 && a->axis <= ndim, LK_EINVAL, "stack along axis %d of %s", a->axis,
             lk_tensor_text(first).s);
    LK_CHECK(ndim < LK_MAX_NDIM, LK_ESHAPE, "stack of %s: one more than %d axes",
             lk_tensor_text(first).s, LK_MAX_NDIM);
    for (int k = 1; k < c->n_in; k++) {
        const lk_tensor *x = c->x[k];
        LK_CHECK(x->dtype == first->dtype, LK_EDTYPE,
                 "stack of %s, input 0, and %s, input %d: lk_cast() one of them",
                 lk_tensor_text(first).s, lk_tensor_text(x).s, k);
        LK_CHECK(lk_shape_is_equal(x->shape, first->shape), LK_ESHAPE,
                 "stack of %s, input 0, and %s, input %d: shapes must be equal",
                 lk_tensor_text(first).s, lk_tensor_text(x).s, k);
    }
    out->dtype = first->dtype;
    out->shape.ndim = ndim + 1;
    for (int d = 0; d <= ndim; d++)
        out->shape.dim[d] = d == a->axis ? c->n_in : first->shape.dim[d - (d > a->axis)];
    return LK_OK;
}

static lk_status stack_forward(lk_call *c)
{
    const lk_concat_attr *a = c->attr;
    for (int k = 0; k < c->n_in; k++) {
        lk_tensor part = lk__part(c->y[0], a->axis, k, 1, 1);
        part.shape = c->x[k]->shape; /* without the axis */
        for (int d = a->axis; d < part.shape.ndim; d++)
            part.stride[d] = part.stride[d + 1];
        LK_TRY(lk__copy(c->x[k], &part));
    }
    return LK_OK;
}

static lk_status stack_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_concat_attr *a = c->attr;
    for (int k = 0; k < c->n_in; k++) {
        lk_var part;
        if (!lk_call_needs_grad(c, k))
            continue;
        LK_TRY(lk_slice(dout[0], a->axis, k, k + 1, 1, &part));
        LK_TRY(lk_reshape(part, lk_shape_of(c->in[k]), &din[k]));
    }
    return LK_OK;
}

const lk_op lk__op_stack = {
    .name = "stack",
    .summary = "values of one shape one after the other along a new axis",
    .min_in = 1,
    .max_in = INT_MAX,
    .n_out = 1,
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_concat_attr),
    .infer = stack_infer,
    .forward = stack_forward,
    .backward = stack_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 3,
             .in = {LK_IN(2, 3), LK_IN(2, 3), LK_IN(2, 3)},
             .attr = &(lk_concat_attr){0}},
            {.n_in = 2, .in = {LK_IN(2, 3), LK_IN(2, 3)}, .attr = &(lk_concat_attr){1}},
            {.n_in = 2, .in = {LK_IN(4), LK_IN(4)}, .attr = &(lk_concat_attr){1}},
            {0}},
};

lk_status lk_stack(const lk_var *x, int n, int axis, lk_var *out)
{
    return LK_TRACE(lk__join_apply(&lk__op_stack, x, n, axis, out));
}
