/* Making, sharing and describing tensors. */
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

lk_status lk__tensor_view(const lk_tensor *view, lk_tensor **out)
{
    LK_TRY(lk_alloc(out, 1, sizeof **out));
    memcpy(*out, view, sizeof *view);
    atomic_init(&(*out)->holders, 1);
    lk__storage_retain(view->storage);
    return LK_OK;
}

lk_status lk__tensor_on(struct lk__storage *s, lk_dtype dtype, lk_shape shape, int64_t offset,
                        lk_tensor **out)
{
    lk_tensor t = {.dtype = dtype,
                   .writable = true,
                   .shape = shape,
                   .offset = offset,
                   .storage = s,
                   .version = &s->version};
    LK_TRY(lk_shape_count(shape, &t.count));
    lk__shape_strides(shape, t.stride);
    return LK_TRACE(lk__tensor_view(&t, out));
}

/* The bytes of a tensor, if there can be one of this dtype and shape. */
static lk_status bytes_of(lk_dtype dtype, lk_shape shape, int64_t *out)
{
    int64_t count;
    LK_CHECK(lk_dtype_size(dtype) > 0, LK_EDTYPE, "dtype number %d of a tensor %s", (int)dtype,
             lk_shape_text(shape).s);
    LK_TRY(lk_shape_count(shape, &count));
    LK_CHECK(lk_mul_i64(count, (int64_t)lk_dtype_size(dtype), out) == LK_OK, LK_EOVERFLOW,
             "the bytes of a tensor %s%s", lk_dtype_name(dtype), lk_shape_text(shape).s);
    return LK_OK;
}

static lk_status make(lk_dtype dtype, lk_shape shape, bool zero, lk_tensor **out)
{
    lk_status st;
    struct lk__storage *s = NULL;
    int64_t bytes;
    *out = NULL;
    LK_TRY_TO(done, bytes_of(dtype, shape, &bytes));
    LK_TRY_TO(done, lk__storage_new(bytes, zero, &s));
    LK_TRY_TO(done, lk__tensor_on(s, dtype, shape, 0, out));
done:
    lk__storage_free(s);
    return st;
}

lk_status lk_tensor_new(lk_dtype dtype, lk_shape shape, lk_tensor **out)
{
    return LK_TRACE(make(dtype, shape, false, out));
}

lk_status lk_tensor_zeros(lk_dtype dtype, lk_shape shape, lk_tensor **out)
{
    return LK_TRACE(make(dtype, shape, true, out));
}

/* A tensor on the host's memory. */
struct host {
    void *data;
    lk_release_fn *release;
    void *context;
    bool writable;
};

static lk_status wrap(lk_dtype dtype, lk_shape shape, struct host host, lk_tensor **out)
{
    lk_status st;
    struct lk__storage *s = NULL;
    int64_t bytes;
    *out = NULL;
    LK_TRY(bytes_of(dtype, shape, &bytes));
    LK_CHECK(host.data || bytes == 0, LK_EINVAL, "data is NULL for a tensor %s%s",
             lk_dtype_name(dtype), lk_shape_text(shape).s);
    LK_CHECK((uintptr_t)host.data % lk_dtype_size(dtype) == 0, LK_EINVAL,
             "data at %p is not aligned to the %zu bytes of %s", host.data, lk_dtype_size(dtype),
             lk_dtype_name(dtype));
    LK_TRY(lk__storage_wrap(host.data, NULL, host.context, &s));
    LK_TRY_TO(done, lk__tensor_on(s, dtype, shape, 0, out));
    (*out)->writable = host.writable;
    s->release = host.release; /* only now: a failure leaves the memory with the host */
done:
    lk__storage_free(s);
    return st;
}

lk_status lk_tensor_wrap(lk_dtype dtype, lk_shape shape, void *data, lk_release_fn *release,
                         void *context, lk_tensor **out)
{
    return LK_TRACE(wrap(dtype, shape, (struct host){data, release, context, true}, out));
}

lk_status lk_tensor_wrap_const(lk_dtype dtype, lk_shape shape, const void *data,
                               lk_release_fn *release, void *context, lk_tensor **out)
{
    union {
        const void *read;
        void *write;
    } address = {.read = data}; /* no function writes to a tensor that is not writable */
    return LK_TRACE(wrap(dtype, shape, (struct host){address.write, release, context, false}, out));
}

lk_tensor *lk_tensor_retain(lk_tensor *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->holders, 1, memory_order_relaxed);
    return t;
}

void lk_tensor_free(lk_tensor *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) > 1)
        return;
    lk__storage_free(t->storage);
    lk_free(t);
}

lk_dtype lk_tensor_dtype(const lk_tensor *t)
{
    return t->dtype;
}

lk_shape lk_tensor_shape(const lk_tensor *t)
{
    return t->shape;
}

int64_t lk_tensor_count(const lk_tensor *t)
{
    return t->count;
}

const int64_t *lk_tensor_strides(const lk_tensor *t)
{
    return t->stride;
}

bool lk_tensor_is_writable(const lk_tensor *t)
{
    return t->writable;
}

bool lk_tensor_is_contiguous(const lk_tensor *t)
{
    int64_t expect = 1;
    for (int i = t->shape.ndim - 1; i >= 0 && t->count > 0; i--) {
        if (t->shape.dim[i] > 1 && t->stride[i] != expect)
            return false;
        expect *= t->shape.dim[i];
    }
    return true;
}

const void *lk_tensor_data(const lk_tensor *t)
{
    return lk__tensor_start(t);
}

lk_status lk_tensor_writable_data(lk_tensor *t, void **out)
{
    LK_CHECK(t, LK_EINVAL, "t is NULL");
    LK_CHECK(t->writable, LK_EINVAL, "tensor %s is read-only", lk_tensor_text(t).s);
    lk__tensor_writes(t);
    *out = lk__tensor_start(t);
    return LK_OK;
}

lk_short_string lk_tensor_text(const lk_tensor *t)
{
    lk_short_string text = {"NULL"};
    if (t)
        snprintf(text.s, sizeof text.s, "%s%s", lk_dtype_name(t->dtype), lk_shape_text(t->shape).s);
    return text;
}
