/* The columns micro-kernel of micro.h: plain C, which is its specification, and vectors. */
#include "kernel/micro.h"
#include "kernel/simd/vec.h"

#include <math.h>

#ifndef LK_SIMD_scalar

#    define VEC f32x8
#    include "kernel/simd/columns_tile.h"
#    undef VEC
#    define VEC f64x4
#    include "kernel/simd/columns_tile.h"
#    undef VEC
#    ifdef LK_SIMD_avx512
#        define VEC f32x16
#        include "kernel/simd/columns_tile.h"
#        undef VEC
#        define VEC f64x8
#        include "kernel/simd/columns_tile.h"
#        undef VEC
#    endif

/* The tile of MR rows and NV vectors. */
#    define DEFINE(VEC, NV, MR)                                            \
        static void columns_##VEC##_##NV##_##MR(const lk__columns_args *t) \
        {                                                                  \
            VEC##_columns(MR, NV, t);                                      \
        }
#    define DEFINE_6(VEC, NV) \
        DEFINE(VEC, NV, 1)    \
        DEFINE(VEC, NV, 2)    \
        DEFINE(VEC, NV, 3)    \
        DEFINE(VEC, NV, 4)    \
        DEFINE(VEC, NV, 5)    \
        DEFINE(VEC, NV, 6)
#    define DEFINE_12(VEC, NV) \
        DEFINE_6(VEC, NV)      \
        DEFINE(VEC, NV, 7)     \
        DEFINE(VEC, NV, 8)     \
        DEFINE(VEC, NV, 9)     \
        DEFINE(VEC, NV, 10)    \
        DEFINE(VEC, NV, 11)    \
        DEFINE(VEC, NV, 12)

#    define LIST_6(VEC, NV)                                                                 \
        NULL, columns_##VEC##_##NV##_1, columns_##VEC##_##NV##_2, columns_##VEC##_##NV##_3, \
            columns_##VEC##_##NV##_4, columns_##VEC##_##NV##_5, columns_##VEC##_##NV##_6
#    define LIST_12(VEC, NV)                                                                \
        LIST_6(VEC, NV), columns_##VEC##_##NV##_7, columns_##VEC##_##NV##_8,                \
            columns_##VEC##_##NV##_9, columns_##VEC##_##NV##_10, columns_##VEC##_##NV##_11, \
            columns_##VEC##_##NV##_12

#    ifdef LK_SIMD_avx512
/* 32 registers: 24 sums, 2 of Y, 1 of X. */
DEFINE_12(f32x16, 2)
DEFINE_12(f32x16, 1)
DEFINE_12(f32x8, 1)
DEFINE_12(f64x8, 2)
DEFINE_12(f64x8, 1)
DEFINE_12(f64x4, 1)

const lk__columns_table LK_ISA(lk__columns) = {
    .of = {
        [LK_F32] = {.width = {32, 16, 8},
                    .mr = {12, 12, 12},
                    .tile = {{LIST_12(f32x16, 2)}, {LIST_12(f32x16, 1)}, {LIST_12(f32x8, 1)}}},
        [LK_F64] = {.width = {16, 8, 4},
                    .mr = {12, 12, 12},
                    .tile = {{LIST_12(f64x8, 2)}, {LIST_12(f64x8, 1)}, {LIST_12(f64x4, 1)}}},
    }};
#    else
/* 16 registers: 12 sums, 2 of Y, 1 of X. */
DEFINE_6(f32x8, 2)
DEFINE_12(f32x8, 1)
DEFINE_6(f64x4, 2)
DEFINE_12(f64x4, 1)

const lk__columns_table LK_ISA(lk__columns) = {
    .of = {
        [LK_F32] = {.width = {16, 8},
                    .mr = {6, 12},
                    .tile = {{LIST_6(f32x8, 2)}, {LIST_12(f32x8, 1)}}},
        [LK_F64] = {.width = {8, 4},
                    .mr = {6, 12},
                    .tile = {{LIST_6(f64x4, 2)}, {LIST_12(f64x4, 1)}}},
    }};
#    endif

#else

#    define FMA_float fmaf
#    define FMA_double fma

#    define DEFINE(T, MR)                                                                         \
        static void columns_##T##_##MR(const lk__columns_args *t)                                 \
        {                                                                                         \
            for (int m = 0; m < (MR); m++)                                                        \
                for (int j = 0; j < t->n_valid; j++) {                                            \
                    T acc = t->partial ? ((const T *)t->partial)[m * t->ld_partial + j] : 0;      \
                    for (int64_t r = 0; r < t->n_rows; r++)                                       \
                        for (int64_t p = 0; p < t->n_phase; p++) {                                \
                            const lk__phase *ph = &t->phase[p];                                   \
                            if (!(ph->mask >> m & 1))                                             \
                                continue;                                                         \
                            for (int64_t i = ph->first; i < ph->first + ph->n; i++)               \
                                acc = FMA_##T(((const T *)t->x)[r * t->x_row + i * t->x_col + m], \
                                              ((const T *)t->y)[r * t->y_row + i * t->y_col + j], \
                                              acc);                                               \
                        }                                                                         \
                    for (int q = 0; q < t->n_add; q++)                                            \
                        acc = ((const T *)t->add[q])[m * t->ld_add + j] + acc;                    \
                    T *out = (T *)t->out + m * t->ld_out + j;                                     \
                    *out = t->accumulate ? *out + acc : acc;                                      \
                }                                                                                 \
        }

#    define DEFINE_TYPE(T) \
        DEFINE(T, 1)       \
        DEFINE(T, 2)       \
        DEFINE(T, 3)

DEFINE_TYPE(float)
DEFINE_TYPE(double)

#    define TABLE(T)                                                             \
        {                                                                        \
            .width = {4}, .mr = {3},                                             \
            .tile = {{NULL, columns_##T##_1, columns_##T##_2, columns_##T##_3}}, \
        }

const lk__columns_table LK_ISA(lk__columns) = {
    .of = {[LK_F32] = TABLE(float), [LK_F64] = TABLE(double)}};

#endif
