/* Values from the dtype of a set to that of a run: converted, times a, plus b.
 *
 * The product is rounded, then the sum; both in the dtype of the run.
 */
#include "data/loader.h"

#include <lockstep/extra/half.h>

/* One loop for each pair of types; `value` turns an element of `in` into a number. */
#define CONVERT(in_type, out_type, value)                               \
    do {                                                                \
        const in_type *x = in;                                          \
        out_type *y = out;                                              \
        const out_type *a = f ? f->a : NULL, *b = f ? f->b : NULL;      \
        if (!f || f->identity)                                          \
            for (int64_t i = 0; i < count; i++)                         \
                y[i] = (out_type)value(x[i]);                           \
        else if (f->channels == 1)                                      \
            for (int64_t i = 0; i < count; i++)                         \
                y[i] = (out_type)value(x[i]) * a[0] + b[0];             \
        else                                                            \
            for (int64_t i = 0; i < count; i += f->channels)            \
                for (int64_t c = 0; c < f->channels; c++)               \
                    y[i + c] = (out_type)value(x[i + c]) * a[c] + b[c]; \
    } while (0)

#define CONVERT_TO(out_type)                                        \
    switch (from) {                                                 \
    case LK_F32: CONVERT(float, out_type, ); break;                 \
    case LK_F64: CONVERT(double, out_type, ); break;                \
    case LK_I32: CONVERT(int32_t, out_type, ); break;               \
    case LK_I64: CONVERT(int64_t, out_type, ); break;               \
    case LK_U8: CONVERT(unsigned char, out_type, ); break;          \
    case LK_F16: CONVERT(uint16_t, out_type, lk_f16_decode); break; \
    default: CONVERT(uint16_t, out_type, lk_bf16_decode); break;    \
    }

void lk__convert(lk_dtype from, const void *in, lk_dtype to, void *out, int64_t count,
                 const lk__affine *f)
{
    if (to == LK_F32)
        CONVERT_TO(float)
    else
        CONVERT_TO(double)
}
