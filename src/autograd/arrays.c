/* lk_leaf_data(), lk_constant_data(), lk_read(): the program's own arrays as values, and values into its
 * arrays, on the tape's thread.
 *
 * A tensor on the array goes to the tape, which holds it until the reset; the elements stay where
 * they are.
 */
#include "autograd/tape.h"

lk_status lk_leaf_data(lk_tape *t, lk_dtype dtype, lk_shape shape, const void *value, void *grad,
                       lk_var *out)
{
    lk_status st;
    lk_tensor *x = NULL, *g = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY_TO(done, lk_tensor_wrap_const(dtype, shape, value, NULL, NULL, &x));
    if (grad)
        LK_TRY_TO(done, lk_tensor_wrap(dtype, shape, grad, NULL, NULL, &g));
    LK_TRY_TO(done, lk_leaf(t, x, g, out));
done:
    lk_tensor_free(x);
    lk_tensor_free(g);
    return st;
}

lk_status lk_constant_data(lk_tape *t, lk_dtype dtype, lk_shape shape, const void *value,
                           lk_var *out)
{
    lk_tensor *x = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = LK_NO_VAR;
    LK_TRY(lk_tensor_wrap_const(dtype, shape, value, NULL, NULL, &x));
    lk_status st = lk_constant(t, x, out);
    lk_tensor_free(x);
    return LK_TRACE(st);
}

lk_status lk_read(lk_var v, lk_dtype dtype, int64_t count, void *out)
{
    lk__value *x = NULL;
    LK_TRY(lk__find(v, false, &x));
    const lk_tensor *from = &x->tensor;
    LK_CHECK(dtype == from->dtype, LK_EDTYPE, "a value %s is read as %s; lk_cast() converts",
             lk_tensor_text(from).s, lk_dtype_name(dtype));
    LK_CHECK(count == from->count, LK_ESHAPE, "a value %s has %lld elements, and %lld are read",
             lk_tensor_text(from).s, (long long)from->count, (long long)count);
    if (count == 0)
        return LK_OK;
    LK_CHECK(out && (uintptr_t)out % lk_dtype_size(dtype) == 0, LK_EINVAL,
             "a value %s is read to %p, which is %s", lk_tensor_text(from).s, out,
             out ? "not aligned to its elements" : "NULL");
    struct lk__storage host = {.data = out};
    lk_tensor to = {.dtype = dtype,
                    .writable = true,
                    .shape = from->shape,
                    .count = count,
                    .storage = &host,
                    .version = &host.version};
    lk__shape_strides(to.shape, to.stride);
    return LK_TRACE(lk_tensor_copy(from, &to));
}
