/* Parts of tensors, copies and fills. */
#include "ops/common/parts.h"

#include "base/memory/rehearsal.h"
#include "ops/common/ops.h"

lk_tensor lk__part(const lk_tensor *t, int axis, int64_t start, int64_t n, int64_t step)
{
    lk_tensor part = lk__tensor_fields(t);
    part.shape.dim[axis] = n;
    part.count = 1;
    for (int d = 0; d < t->shape.ndim; d++)
        part.count = lk__times(part.count, part.shape.dim[d]);
    if (part.count > 0)
        part.offset += start * t->stride[axis];
    if (n > 1)
        part.stride[axis] *= step;
    return part;
}

lk_status lk__copy(const lk_tensor *src, const lk_tensor *dst)
{
    lk_tensor to = lk__tensor_fields(dst);
    return LK_TRACE(lk_tensor_copy(src, &to));
}

lk_status lk__fill(const lk_tensor *dst, double value)
{
    lk_tensor to = lk__tensor_fields(dst);
    if (!lk__rehearses() || !lk_dtype_is_real(dst->dtype))
        LK_TRY(lk_tensor_fill_f64(&to, value));
    return LK_OK;
}

lk_status lk__join_apply(const lk_op *op, const lk_var *x, int n, int axis, lk_var *out)
{
    lk_var y = LK_NO_VAR; /* out may point to one of x */
    lk_status st = LK_OK;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    if (x && n >= 1)
        st = lk_apply(x[0].tape, op, x, n, &(lk_concat_attr){axis}, &y);
    *out = y;
    LK_TRY(st);
    LK_CHECK(x && n >= 1, LK_EINVAL, "%s of %d values%s", op->name, n, x ? "" : ", x is NULL");
    return LK_OK;
}
