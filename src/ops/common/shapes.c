/* Shapes of operands that an op combines, their sizes, and numbers in attributes. */
#include "ops/common/ops.h"
#include "tensor/tensor.h"

#include <math.h>

lk_status lk__broadcast_shapes(const char *op, lk_shape a, lk_shape b, lk_shape *out)
{
    lk_shape long_one = a.ndim >= b.ndim ? a : b, short_one = a.ndim >= b.ndim ? b : a;
    int skip = long_one.ndim - short_one.ndim;
    *out = long_one;
    for (int d = skip; d < long_one.ndim; d++) {
        int64_t n = long_one.dim[d], m = short_one.dim[d - skip];
        LK_CHECK(
            n == m || n == 1 || m == 1, LK_ESHAPE,
            "%s of shapes %s and %s: axes are matched from the last one, and must be equal or 1",
            op, lk_shape_text(a).s, lk_shape_text(b).s);
        out->dim[d] = n == 1 ? m : n;
    }
    return LK_OK;
}

lk_status lk__like_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    return LK_OK;
}

lk_status lk__same_infer(lk_call *c, lk_output_spec *out)
{
    LK_CHECK(lk_dtype_is_real(c->x[0]->dtype), LK_EDTYPE,
             "%s of %s: only f32 and f64 are computed with", c->op->name,
             lk_tensor_text(c->x[0]).s);
    return LK_TRACE(lk__like_infer(c, out));
}

bool lk__is_finite(lk_dtype dtype, double value)
{
    return dtype == LK_F32 ? isfinite((float)value) : isfinite(value);
}

int64_t lk__times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}
