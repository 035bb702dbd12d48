/* Arrays in .npz archives: for formats and for lk_tensors_save(). */
#include "data/arrays/npz.h"

#include "data/packed/crc32.h"

lk_status lk__npz_member(const char *name, char *buf)
{
    int n = snprintf(buf, LK_ZIP_NAME, "%s.npy", name);
    LK_CHECK(n >= 0 && n < LK_ZIP_NAME, LK_ENOTSUP, "the name \"%s\" is too long for .npz", name);
    return LK_OK;
}

lk_status lk__npz_add(lk__zip_out *z, const char *name, const lk_tensor *t)
{
    char member[LK_ZIP_NAME], head[LK_NPY_HEADER_ROOM];
    int64_t n, bytes = lk_tensor_count(t) * (int64_t)lk_dtype_size(lk_tensor_dtype(t));
    LK_CHECK(lk_tensor_is_contiguous(t), LK_EINVAL, "array \"%s\": the tensor %s is not contiguous",
             name, lk_tensor_text(t).s);
    LK_TRY(lk__npz_member(name, member));
    LK_TRY(lk__npy_header(lk_tensor_dtype(t), lk_tensor_shape(t), head, &n));
    uint32_t crc = lk__crc32(lk__crc32(0, head, (size_t)n), lk_tensor_data(t), (size_t)bytes);
    LK_TRY(lk__zip_begin(z, member, n + bytes, crc));
    LK_TRY(lk__zip_write(z, head, n));
    return LK_TRACE(lk__zip_write(z, lk_tensor_data(t), bytes));
}
