/* Whole numbers for models that take them, such as the rows of an embedding: never normalised, and
 * checked one by one.
 *
 * Files of tables and floats hold them as reals; these must be whole, and small enough for their dtype
 * to tell each from its neighbours.
 */
#include "data/dataset.h"
#include "data/loader/loader.h"

#include <math.h>

lk_dtype lk__index_dtype(lk_dtype from)
{
    return from == LK_U8 || from == LK_I32 ? LK_I32 : LK_I64;
}

/* From here on the dtype does not hold every whole number; 0: it holds all. */
static double exact_below(lk_dtype dtype)
{
    switch (dtype) {
    case LK_F64: return 0x1p53;
    case LK_F32: return 0x1p24;
    case LK_F16: return 0x1p11;
    case LK_BF16: return 0x1p8;
    default: return 0;
    }
}

/* Which element of the whole sample that of the box is. */
static long long place(const lk_loader *l, int64_t i)
{
    return (long long)lk__box_place(&l->info->field[l->x], &l->box[l->x], i);
}

/* Element i of the box of a sample of reals as a whole number. */
static lk_status read_real(const lk_loader *l, int64_t sample, const void *raw, int64_t i,
                           int64_t *out)
{
    lk_dtype dtype = l->info->field[l->x].dtype;
    const char *element = (const char *)raw + i * (int64_t)lk_dtype_size(dtype);
    double v, limit = exact_below(dtype);
    lk__convert(dtype, element, LK_F64, &v, 1, NULL);
    bool exact = fabs(v) < limit; /* larger ones are whole, if they are finite */
    LK_CHECK(exact ? v == (double)(int64_t)v : v - v == 0, LK_EIO,
             "dataset %s: sample %lld has the value %g at element %lld, but the model takes whole "
             "numbers",
             lk__dataset_title(l->ds), (long long)sample, v, place(l, i));
    LK_CHECK(exact, LK_EIO,
             "dataset %s: sample %lld has the value %.17g at element %lld: from %.0f on, whole "
             "numbers are not exact as %s; they need f64 (double=true of csv) or integers",
             lk__dataset_title(l->ds), (long long)sample, v, place(l, i), limit,
             lk_dtype_name(dtype));
    *out = (int64_t)v;
    return LK_OK;
}

lk_status lk__indices_put(const lk_loader *l, int64_t sample, const void *raw, void *out)
{
    lk_dtype from = l->info->field[l->x].dtype, to = lk__index_dtype(from);
    int64_t n = lk_box_count(&l->box[l->x]);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = 0;
        switch (from) {
        case LK_U8: v = ((const unsigned char *)raw)[i]; break;
        case LK_I32: v = ((const int32_t *)raw)[i]; break;
        case LK_I64: v = ((const int64_t *)raw)[i]; break;
        default: LK_TRY(read_real(l, sample, raw, i, &v)); break;
        }
        LK_CHECK(v >= 0 && v < l->options.indices, LK_EIO,
                 "dataset %s: sample %lld has the value %lld at element %lld, but the model takes "
                 "0 to %lld",
                 lk__dataset_title(l->ds), (long long)sample, (long long)v, place(l, i),
                 (long long)l->options.indices - 1);
        if (to == LK_I32)
            ((int32_t *)out)[i] = (int32_t)v;
        else
            ((int64_t *)out)[i] = v;
    }
    return LK_OK;
}
