/* Shapes: their count, their strides, their text. */
#include "tensor/tensor.h"

/* Why a shape has no count. */
LK_COLD static lk_status count_raise(lk_shape shape)
{
    LK_CHECK(shape.ndim >= 0 && shape.ndim <= LK_MAX_NDIM, LK_EINVAL,
             "a shape has 0 to %d axes, not %d", LK_MAX_NDIM, shape.ndim);
    for (int i = 0; i < shape.ndim; i++)
        LK_CHECK(shape.dim[i] >= 0, LK_EINVAL, "axis %d of shape %s is negative", i,
                 lk_shape_text(shape).s);
    return LK_RAISE(LK_EOVERFLOW, "shape %s has more elements than can be counted",
                    lk_shape_text(shape).s);
}

lk_status lk_shape_count(lk_shape shape, int64_t *out)
{
    bool good = shape.ndim >= 0 && shape.ndim <= LK_MAX_NDIM, zero = false, fits = true;
    int64_t product = 1;
    for (int i = 0; good && i < shape.ndim; i++) {
        good = shape.dim[i] >= 0;
        zero |= shape.dim[i] == 0;
        fits &= !__builtin_mul_overflow(product, shape.dim[i], &product);
    }
    if (!good || (!zero && !fits))
        return count_raise(shape);
    *out = zero ? 0 : product;
    return LK_OK;
}

bool lk_shape_is_equal(lk_shape a, lk_shape b)
{
    if (a.ndim != b.ndim)
        return false;
    for (int i = 0; i < a.ndim && i < LK_MAX_NDIM; i++)
        if (a.dim[i] != b.dim[i])
            return false;
    return true;
}

lk_short_string lk_shape_text(lk_shape shape)
{
    lk_short_string text = {"["};
    size_t len = 1;
    for (int i = 0; i < shape.ndim && i < LK_MAX_NDIM; i++)
        len += (size_t)snprintf(text.s + len, sizeof text.s - len, i ? ",%lld" : "%lld",
                                (long long)shape.dim[i]);
    snprintf(text.s + len, sizeof text.s - len, shape.ndim > LK_MAX_NDIM ? ",...]" : "]");
    return text;
}

void lk__shape_strides(lk_shape shape, int64_t *stride)
{
    bool empty = false;
    for (int i = 0; i < shape.ndim; i++)
        empty |= shape.dim[i] == 0;
    int64_t step = empty ? 0 : 1; /* the sizes of an empty shape may not have a product */
    for (int i = shape.ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step = empty ? 0 : step * shape.dim[i];
    }
}
