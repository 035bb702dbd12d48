/* Views: other shapes and strides on the same storage.
 *
 * The offset of a view without elements stays that of its parent, so that no address outside the
 * storage is ever formed.
 */
#include "tensor/walk.h"

/* Retain a view of t that differs from it in shape, strides and, by `skip` elements, offset. */
static lk_status view_make(const lk_tensor *t, lk_tensor *view, int64_t skip, lk_tensor **out)
{
    LK_TRY(lk_shape_count(view->shape, &view->count));
    view->offset = view->count > 0 ? t->offset + skip : t->offset;
    return LK_TRACE(lk__tensor_view(view, out));
}

static lk_status axis_check(const lk_tensor *t, int axis)
{
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    LK_CHECK(axis >= 0 && axis < t->shape.ndim, LK_EINVAL, "axis %d of tensor %s", axis,
             lk_tensor_text(t).s);
    return LK_OK;
}

lk_status lk_tensor_slice(const lk_tensor *t, int axis, int64_t start, int64_t stop, int64_t step,
                          lk_tensor **out)
{
    *out = NULL;
    LK_TRY(axis_check(t, axis));
    LK_CHECK(start >= 0 && start <= stop && stop <= t->shape.dim[axis], LK_EINVAL,
             "slice %lld to %lld of axis %d of tensor %s", (long long)start, (long long)stop, axis,
             lk_tensor_text(t).s);
    LK_CHECK(step >= 1, LK_EINVAL, "slice of axis %d of tensor %s with step %lld", axis,
             lk_tensor_text(t).s, (long long)step);
    lk_tensor view = lk__tensor_fields(t);
    int64_t n = (stop - start) / step + ((stop - start) % step != 0);
    view.shape.dim[axis] = n;
    if (n > 1) /* otherwise the step leads nowhere, and its product might not fit */
        view.stride[axis] *= step;
    return LK_TRACE(view_make(t, &view, start * t->stride[axis], out));
}

lk_status lk_tensor_select(const lk_tensor *t, int axis, int64_t index, lk_tensor **out)
{
    *out = NULL;
    LK_TRY(axis_check(t, axis));
    LK_CHECK(index >= 0 && index < t->shape.dim[axis], LK_EINVAL,
             "index %lld of axis %d of tensor %s", (long long)index, axis, lk_tensor_text(t).s);
    lk_tensor view = lk__tensor_fields(t);
    view.shape.ndim--;
    for (int i = axis; i < view.shape.ndim; i++) {
        view.shape.dim[i] = t->shape.dim[i + 1];
        view.stride[i] = t->stride[i + 1];
    }
    return LK_TRACE(view_make(t, &view, index * t->stride[axis], out));
}

lk_status lk_tensor_permute(const lk_tensor *t, const int *axes, lk_tensor **out)
{
    *out = NULL;
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    LK_CHECK(axes || t->shape.ndim == 0, LK_EINVAL, "axes is NULL for tensor %s",
             lk_tensor_text(t).s);
    lk_tensor view = lk__tensor_fields(t);
    unsigned seen = 0;
    for (int i = 0; i < t->shape.ndim; i++) {
        LK_TRY(axis_check(t, axes[i]));
        LK_CHECK(!(seen >> axes[i] & 1), LK_EINVAL, "axis %d of tensor %s twice in axes", axes[i],
                 lk_tensor_text(t).s);
        seen |= 1U << axes[i];
        view.shape.dim[i] = t->shape.dim[axes[i]];
        view.stride[i] = t->stride[axes[i]];
    }
    return LK_TRACE(view_make(t, &view, 0, out));
}

lk_status lk_tensor_transpose(const lk_tensor *t, int axis_a, int axis_b, lk_tensor **out)
{
    int axes[LK_MAX_NDIM];
    *out = NULL;
    LK_TRY(axis_check(t, axis_a));
    LK_TRY(axis_check(t, axis_b));
    for (int i = 0; i < t->shape.ndim; i++)
        axes[i] = i == axis_a ? axis_b : i == axis_b ? axis_a : i;
    return LK_TRACE(lk_tensor_permute(t, axes, out));
}

/* A walk joins t's axes as far as possible.  Each joined axis must be the product of some
 * consecutive new ones, which then cut it up. */
bool lk__reshape_strides(const lk_tensor *t, lk_shape shape, int64_t *stride)
{
    struct lk__walk w;
    if (t->count == 0) {
        lk__shape_strides(shape, stride);
        return true;
    }
    lk__walk_start(&w, t, NULL);
    int axis = shape.ndim - 1;
    for (int k = w.ndim - 1; k >= 0; k--) {
        int64_t left = w.dim[k], step = w.stride[0][k];
        while (left > 1) {
            int64_t n = shape.dim[axis];
            if (left % n != 0)
                return false;
            stride[axis--] = step;
            step *= n;
            left /= n;
        }
    }
    for (; axis >= 0; axis--) /* only axes of size 1 are left */
        stride[axis] = 1;
    return true;
}

lk_status lk_tensor_reshape(const lk_tensor *t, lk_shape shape, lk_tensor **out)
{
    int64_t count;
    *out = NULL;
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    LK_TRY(lk_shape_count(shape, &count));
    LK_CHECK(count == t->count, LK_ESHAPE, "tensor %s has %lld elements, shape %s has %lld",
             lk_tensor_text(t).s, (long long)t->count, lk_shape_text(shape).s, (long long)count);
    lk_tensor view = lk__tensor_fields(t);
    view.shape = shape;
    LK_CHECK(lk__reshape_strides(t, shape, view.stride), LK_ENOTSUP,
             "tensor %s, not contiguous, as shape %s would need a copy", lk_tensor_text(t).s,
             lk_shape_text(shape).s);
    return LK_TRACE(view_make(t, &view, 0, out));
}

lk_status lk_tensor_broadcast(const lk_tensor *t, lk_shape shape, lk_tensor **out)
{
    int64_t count;
    *out = NULL;
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    LK_TRY(lk_shape_count(shape, &count));
    lk_tensor view = lk__tensor_fields(t);
    view.shape = shape;
    view.writable = false;
    int added = shape.ndim - t->shape.ndim;
    bool fits = added >= 0;
    for (int i = 0; i < shape.ndim && fits; i++) {
        int64_t dim = i < added ? 1 : t->shape.dim[i - added];
        fits = dim == 1 || dim == shape.dim[i];
        view.stride[i] = dim == 1 ? 0 : t->stride[i - added];
    }
    LK_CHECK(fits, LK_ESHAPE, "tensor %s cannot be broadcast to shape %s", lk_tensor_text(t).s,
             lk_shape_text(shape).s);
    return LK_TRACE(view_make(t, &view, 0, out));
}
