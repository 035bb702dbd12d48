/* Values from the dtype of a set to that of a run: converted, times a, plus b.
 *
 * The product is rounded, then the sum; both in the dtype of the run.
 */
#include "data/loader.h"

#include <lockstep/extra/half.h>

/* Channels are repeated until there are so many numbers, which is enough for any vector. */
enum { REPEATED = 64 };

/* One loop for each pair of types; `value` turns an element of `in` into a number. */
#define CONVERT(in_type, out_type, value)                                                     \
    do {                                                                                      \
        const in_type *x = in;                                                                \
        out_type *y = out;                                                                    \
        int64_t i = 0, width = 0;                                                             \
        if (!f || f->identity || count == 0) { /* of an empty box there may be no channels */ \
            for (; i < count; i++)                                                            \
                y[i] = (out_type)value(x[i]);                                                 \
            break;                                                                            \
        }                                                                                     \
        const out_type *of_channel_a = f->a, *of_channel_b = f->b;                            \
        out_type a[2 * REPEATED] = {0}, b[2 * REPEATED] = {0};                                \
        for (; width < REPEATED && f->channels <= REPEATED; width += f->channels)             \
            for (int64_t c = 0; c < f->channels; c++) {                                       \
                a[width + c] = of_channel_a[c];                                               \
                b[width + c] = of_channel_b[c];                                               \
            }                                                                                 \
        for (; width > 0 && i + width <= count; i += width)                                   \
            for (int64_t c = 0; c < width; c++)                                               \
                y[i + c] = (out_type)value(x[i + c]) * a[c] + b[c];                           \
        for (int64_t c = 0; i < count; i++, c = c + 1 < f->channels ? c + 1 : 0)              \
            y[i] = (out_type)value(x[i]) * of_channel_a[c] + of_channel_b[c];                 \
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
