/* Axes that attributes name. */
#include "ops/common/axes/axes.h"

#include "ops/common/ops.h"
#include "tensor/tensor.h"

const lk_axes lk__all_axes = {.n = 0};

lk_status lk__axis_check(const lk_call *c, int axis)
{
    lk_shape shape = lk_tensor_shape(c->x[0]);
    LK_CHECK(shape.ndim > 0, LK_EINVAL, "%s along axis %d of %s, which has no axes", c->op->name,
             axis, lk_tensor_text(c->x[0]).s);
    LK_CHECK(axis >= 0 && axis < shape.ndim, LK_EINVAL,
             "%s along axis %d of %s, whose axes are 0 to %d", c->op->name, axis,
             lk_tensor_text(c->x[0]).s, shape.ndim - 1);
    return LK_OK;
}

static int axis_at(const lk_axes *axes, int i, int ndim)
{
    return axes->axis[i] == LK_LAST_AXIS ? ndim - 1 : axes->axis[i];
}

lk_status lk__axes_check(const lk_call *c, unsigned *out)
{
    const lk_axes *axes = c->attr;
    unsigned seen = 0;
    int ndim = lk_tensor_shape(c->x[0]).ndim;
    LK_CHECK(axes->n >= 0 && axes->n <= LK_MAX_NDIM, LK_EINVAL, "%s of %s along %d axes",
             c->op->name, lk_tensor_text(c->x[0]).s, axes->n);
    for (int i = 0; i < axes->n; i++) {
        int axis = axis_at(axes, i, ndim);
        LK_TRY(lk__axis_check(c, axis));
        LK_CHECK(!(seen >> axis & 1), LK_EINVAL, "%s of %s: axis %d comes twice", c->op->name,
                 lk_tensor_text(c->x[0]).s, axis);
        seen |= 1u << axis;
    }
    *out = lk__axes_bits(axes, ndim);
    return LK_OK;
}

unsigned lk__axes_bits(const lk_axes *axes, int ndim)
{
    unsigned bits = 0;
    for (int i = 0; i < axes->n; i++)
        bits |= 1u << axis_at(axes, i, ndim);
    return axes->n == 0 ? (1u << ndim) - 1 : bits;
}

lk_shape lk__axes_reduced(lk_shape shape, unsigned bits, bool keep)
{
    lk_shape out = {0};
    for (int d = 0; d < shape.ndim; d++) {
        bool reduced = bits >> d & 1;
        if (!reduced || keep)
            out.dim[out.ndim++] = reduced ? 1 : shape.dim[d];
    }
    return out;
}

int64_t lk__axes_count(lk_shape shape, unsigned bits)
{
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++)
        n = bits >> d & 1 ? lk__times(n, shape.dim[d]) : n;
    return n;
}

lk_status lk__axes_infer(lk_call *c, lk_output_spec *out)
{
    const lk_axes *axes = c->attr;
    unsigned bits;
    LK_TRY(lk__same_infer(c, out));
    LK_TRY(lk__axes_check(c, &bits));
    out->shape = lk__axes_reduced(out->shape, bits, axes->keep);
    return LK_OK;
}

lk_status lk__axes_forward(lk_call *c)
{
    const lk_reduce_axis_op *op = c->op->data;
    const lk_tensor *x = c->x[0];
    unsigned axes = lk__axes_bits(c->attr, x->shape.ndim);
    return LK_TRACE(lk__reduce_axes(c, *op, x, axes, lk__tensor_start(c->y[0])));
}

const lk_op_sample lk__axes_samples[] = {
    {.n_in = 1, .in = {LK_IN(2, 3)}, .attr = &lk__all_axes},
    {.n_in = 1,
     .in = {LK_IN(5, 2, 3)},
     .attr = &(const lk_axes){.n = 2, .axis = {2, 0}, .keep = true},
     .shard_size = 2},
    {.n_in = 1, .in = {LK_IN(2, 4, 3)}, .attr = &(const lk_axes){1, {1}, false}},
    {0}};

lk_status lk__axes_widen(const lk_call *c, lk_var g, lk_var *out)
{
    const lk_axes *axes = c->attr;
    lk_shape x = lk_shape_of(c->in[0]);
    return LK_TRACE(lk_reshape(g, lk__axes_reduced(x, lk__axes_bits(axes, x.ndim), true), out));
}
