/* Single elements, and one value for all of them. */
#include "base/fpenv.h"
#include "kernel/copy.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

enum { MAX_BYTES = 8 /* of an element */ };

/* `value` as an element of dtype t. */
static lk_status element_from_f64(lk_dtype t, double value, char *element)
{
    LK_CHECK(lk__first_unfit_real(t, 1, &value) == 1, LK_EINVAL, "value %.17g does not fit in %s",
             value, lk_dtype_name(t));
    lk__store_real(t, 1, &value, element, 1);
    return LK_OK;
}

static lk_status element_from_i64(lk_dtype t, int64_t value, char *element)
{
    LK_CHECK(lk__first_unfit_int(t, 1, &value) == 1, LK_EINVAL, "value %lld does not fit in %s",
             (long long)value, lk_dtype_name(t));
    lk__store_int(t, 1, &value, element, 1);
    return LK_OK;
}

static lk_status write_begin(const lk_tensor *t)
{
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    LK_CHECK(t->writable, LK_EINVAL, "tensor %s is read-only", lk_tensor_text(t).s);
    lk__tensor_writes(t);
    return LK_OK;
}

static lk_status fill(const lk_tensor *t, const char *element)
{
    lk__copy_box box = {.size = (int64_t)lk_dtype_size(t->dtype), .ndim = t->shape.ndim};
    memcpy(box.dim, t->shape.dim, sizeof box.dim);
    memcpy(box.to, t->stride, sizeof box.to);
    return LK_TRACE(lk__copy_run(&box, element, lk__tensor_start(t)));
}

lk_status lk_tensor_fill_f64(lk_tensor *t, double value)
{
    LK_FP_GUARD();
    char element[MAX_BYTES];
    LK_TRY(write_begin(t));
    LK_TRY(element_from_f64(t->dtype, value, element));
    return LK_TRACE(fill(t, element));
}

lk_status lk_tensor_fill_i64(lk_tensor *t, int64_t value)
{
    LK_FP_GUARD();
    char element[MAX_BYTES];
    LK_TRY(write_begin(t));
    LK_TRY(element_from_i64(t->dtype, value, element));
    return LK_TRACE(fill(t, element));
}

/* The address of the element at `index`. */
static lk_status element_find(const lk_tensor *t, lk_shape index, char **out)
{
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    bool inside = index.ndim == t->shape.ndim;
    int64_t at = 0;
    for (int i = 0; i < t->shape.ndim && inside; i++) {
        inside = index.dim[i] >= 0 && index.dim[i] < t->shape.dim[i];
        if (inside)
            at += index.dim[i] * t->stride[i];
    }
    LK_CHECK(inside, LK_EINVAL, "index %s of tensor %s", lk_shape_text(index).s,
             lk_tensor_text(t).s);
    *out = lk__tensor_start(t) + at * (int64_t)lk_dtype_size(t->dtype);
    return LK_OK;
}

lk_status lk_tensor_get_f64(const lk_tensor *t, lk_shape index, double *out)
{
    LK_FP_GUARD();
    char *element;
    int64_t whole;
    LK_TRY(element_find(t, index, &element));
    if (lk__is_real(t->dtype)) {
        lk__load_real(t->dtype, 1, element, 1, out);
    } else {
        lk__load_int(t->dtype, 1, element, 1, &whole);
        lk__store_int(LK_F64, 1, &whole, (char *)out, 1);
    }
    return LK_OK;
}

lk_status lk_tensor_get_i64(const lk_tensor *t, lk_shape index, int64_t *out)
{
    LK_FP_GUARD();
    char *element;
    double real;
    LK_TRY(element_find(t, index, &element));
    if (lk__is_real(t->dtype)) {
        lk__load_real(t->dtype, 1, element, 1, &real);
        LK_TRY(element_from_f64(LK_I64, real, (char *)out));
    } else {
        lk__load_int(t->dtype, 1, element, 1, out);
    }
    return LK_OK;
}

lk_status lk_tensor_set_f64(lk_tensor *t, lk_shape index, double value)
{
    LK_FP_GUARD();
    char *element;
    LK_TRY(write_begin(t));
    LK_TRY(element_find(t, index, &element));
    return LK_TRACE(element_from_f64(t->dtype, value, element));
}

lk_status lk_tensor_set_i64(lk_tensor *t, lk_shape index, int64_t value)
{
    LK_FP_GUARD();
    char *element;
    LK_TRY(write_begin(t));
    LK_TRY(element_find(t, index, &element));
    return LK_TRACE(element_from_i64(t->dtype, value, element));
}
