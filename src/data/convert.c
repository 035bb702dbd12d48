/* Values from the dtype of a set to that of a run: converted, times a, plus b.
 *
 * The product is rounded, then the sum; both in the dtype of the run.
 */
#include "data/loader/loader.h"

#include <lockstep/extra/half.h>

/* One loop for each pair of types; `value` turns an element of `in` into a number. */
#define CONVERT(in_type, out_type, value)                                                     \
    do {                                                                                      \
        const in_type *restrict x = in;                                                       \
        out_type *restrict y = out;                                                           \
        if (!f || f->identity || count == 0) { /* of an empty box there may be no channels */ \
            for (int64_t i = 0; i < count; i++)                                               \
                y[i] = (out_type)value(x[i]);                                                 \
            break;                                                                            \
        }                                                                                     \
        const out_type *restrict a = f->a, *restrict b = f->b;                                \
        for (int64_t i = 0, n; i < count; i += n) {                                           \
            n = count - i < f->channels ? count - i : f->channels;                            \
            for (int64_t c = 0; c < n; c++)                                                   \
                y[i + c] = (out_type)value(x[i + c]) * a[c] + b[c];                           \
        }                                                                                     \
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
