/* The micro-kernel of depthwise convolution: the specification in plain C, and in vectors. */
#include "kernel/depthwise.h"

#include "kernel/simd/vec.h"

#ifdef LK_SIMD_scalar

#    include <math.h>

#    define FMA_float fmaf
#    define FMA_double fma

#    define DEFINE(T)                                                                         \
        static void depthwise_##T(const lk__depthwise_args *t)                                \
        {                                                                                     \
            for (int64_t m = 0; m < t->n_positions; m++)                                      \
                for (int64_t j = 0; j < t->n_channels; j++) {                                 \
                    const T *a = (const T *)t->a + t->a_off[m] + j, *w = (const T *)t->w + j; \
                    T *c = (T *)t->c + t->c_off[m] + j;                                       \
                    T acc = t->start == LK_START_ZERO   ? 0                                   \
                            : t->start == LK_START_BIAS ? ((const T *)t->bias)[j]             \
                                                        : *c;                                 \
                    for (int64_t i = 0; i < t->n_taps; i++)                                   \
                        acc = FMA_##T(a[t->tap[i].a], w[t->tap[i].w], acc);                   \
                    *c = acc;                                                                 \
                }                                                                             \
        }

DEFINE(float)
DEFINE(double)

const lk__depthwise_table LK_ISA(lk__depthwise) = {
    .of = {[LK_F32] = depthwise_float, [LK_F64] = depthwise_double}};

#else

#    define VEC LK_VEC_F32
#    include "kernel/simd/depthwise_tile.h"
#    undef VEC
#    define VEC LK_VEC_F64
#    include "kernel/simd/depthwise_tile.h"
#    undef VEC

const lk__depthwise_table LK_ISA(lk__depthwise) = {
    .of = {[LK_F32] = LK_CAT(LK_VEC_F32, _depthwise), [LK_F64] = LK_CAT(LK_VEC_F64, _depthwise)}};

#endif
