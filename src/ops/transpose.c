/* transpose: axes in another order.
 *
 *   axis i of y is axis axes[i] of x        a view, no copy
 *   dx = dy with its axes back in place
 */
#include "ops/common/axes/axes.h"
#include "ops/common/ops.h"
#include "tensor/tensor.h"

static lk_status transpose_infer(lk_call *c, lk_output_spec *out)
{
    const lk_transpose_attr *a = c->attr;
    const lk_tensor *x = c->x[0];
    unsigned seen = 0;
    out->dtype = x->dtype;
    out->shape.ndim = x->shape.ndim;
    out->is_view = true;
    for (int i = 0; i < x->shape.ndim; i++) {
        LK_TRY(lk__axis_check(c, a->axes[i]));
        LK_CHECK(!(seen >> a->axes[i] & 1), LK_EINVAL, "transpose of %s: axis %d comes twice",
                 lk_tensor_text(x).s, a->axes[i]);
        seen |= 1u << a->axes[i];
        out->shape.dim[i] = x->shape.dim[a->axes[i]];
        out->stride[i] = x->stride[a->axes[i]];
    }
    return LK_OK;
}

static lk_status transpose_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    const lk_transpose_attr *a = c->attr;
    int back[LK_MAX_NDIM] = {0};
    for (int i = 0; i < lk_shape_of(c->in[0]).ndim; i++)
        back[a->axes[i]] = i;
    return LK_TRACE(lk_permute(dout[0], back, &din[0]));
}

lk_status lk_transpose(lk_var x, int axis_a, int axis_b, lk_var *out)
{
    int axes[LK_MAX_NDIM] = {0};
    const lk_tensor *t = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk_value(x, &t));
    int ndim = t->shape.ndim;
    LK_CHECK(axis_a >= 0 && axis_a < ndim && axis_b >= 0 && axis_b < ndim, LK_EINVAL,
             "transpose of axes %d and %d of %s", axis_a, axis_b, lk_tensor_text(t).s);
    for (int i = 0; i < ndim; i++)
        axes[i] = i == axis_a ? axis_b : i == axis_b ? axis_a : i;
    return LK_TRACE(lk_permute(x, axes, out));
}

const lk_op lk__op_transpose = {
    .name = "transpose",
    .summary = "x with its axes in another order, a view",
    LK_ARITY(1, 1),
    .flags = LK_OP_LINEAR | LK_OP_STRIDED,
    .attr_size = sizeof(lk_transpose_attr),
    .infer = transpose_infer,
    .backward = transpose_backward,
    .samples =
        (const lk_op_sample[]){
            {.n_in = 1, .in = {LK_IN(2, 3, 4)}, .attr = &(lk_transpose_attr){{2, 0, 1}}},
            {.n_in = 1, .in = {LK_IN(3, 1)}, .attr = &(lk_transpose_attr){{1, 0}}},
            {0}},
};

lk_status lk_permute(lk_var x, const int *axes, lk_var *out)
{
    lk_transpose_attr a = {{0}};
    const lk_tensor *t = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk_value(x, &t));
    LK_CHECK(axes || t->shape.ndim == 0, LK_EINVAL, "transpose of %s: axes is NULL",
             lk_tensor_text(t).s);
    for (int i = 0; i < t->shape.ndim; i++)
        a.axes[i] = axes[i];
    return LK_TRACE(lk_apply(x.tape, &lk__op_transpose, &x, 1, &a, out));
}
