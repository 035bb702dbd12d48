/* The columns micro-kernel of micro.h: plain C, which is its specification, and vectors. */
#include "kernel/micro.h"
#include "kernel/simd/vec.h"

#include <math.h>

/* {NULL, PREFIX_1, PREFIX_2, ...}: functions by MR. */
#define LIST_3(P) NULL, P##_1, P##_2, P##_3
#define LIST_6(P) LIST_3(P), P##_4, P##_5, P##_6
#define LIST_12(P) LIST_6(P), P##_7, P##_8, P##_9, P##_10, P##_11, P##_12
#define LIST_16(P) LIST_12(P), P##_13, P##_14, P##_15, P##_16

#ifdef LK_SIMD_scalar

#    define FMA_float fmaf
#    define FMA_double fma

/* X_M: from the X of one m to the next; X_J: from one column to the next, 0 if all have the same. */
#    define DEFINE(NAME, T, MR, X_M, X_J)                                                        \
        static void NAME##_##T##_##MR(const lk__columns_args *t)                                 \
        {                                                                                        \
            for (int m = 0; m < (MR); m++)                                                       \
                for (int j = 0; j < t->n_valid; j++) {                                           \
                    T acc = t->partial ? ((const T *)t->partial)[m * t->ld_partial + j] : 0;     \
                    for (int64_t row = 0; row < t->n_images * t->n_rows; row++) {                \
                        const int64_t i = row / t->n_rows, r = row % t->n_rows;                  \
                        const T *xr = (const T *)t->x + m * (X_M) + j * (X_J) + i * t->x_image + \
                                      r * t->x_row;                                              \
                        const T *yr = (const T *)t->y + j + i * t->y_image + r * t->y_row;       \
                        for (int64_t p = 0; p < t->n_phase; p++) {                               \
                            const lk__phase *ph = &t->phase[p];                                  \
                            if (!(ph->mask >> m & 1))                                            \
                                continue;                                                        \
                            for (int64_t c = ph->first; c < ph->first + ph->n; c++)              \
                                acc = FMA_##T(xr[c * t->x_col], yr[c * t->y_col], acc);          \
                        }                                                                        \
                    }                                                                            \
                    for (int q = 0; q < t->n_add; q++)                                           \
                        acc = ((const T *)t->add[q])[m * t->ld_add + j] + acc;                   \
                    T *out = (T *)t->out + m * t->ld_out + j;                                    \
                    *out = t->accumulate ? *out + acc : acc;                                     \
                }                                                                                \
        }

#    define DEFINE_TYPE(T)           \
        DEFINE(columns, T, 1, 1, 0)  \
        DEFINE(columns, T, 2, 1, 0)  \
        DEFINE(columns, T, 3, 1, 0)  \
        DEFINE(own, T, 1, t->x_m, 1) \
        DEFINE(own, T, 2, t->x_m, 1) \
        DEFINE(own, T, 3, t->x_m, 1)

DEFINE_TYPE(float)
DEFINE_TYPE(double)

#    define TABLE(T)                                                                              \
        {                                                                                         \
            .width = {4}, .mr = {3}, .tile = {{LIST_3(columns_##T)}}, .own = {{LIST_3(own_##T)}}, \
        }

const lk__columns_table LK_ISA(lk__columns) = {
    .of = {[LK_F32] = TABLE(float), [LK_F64] = TABLE(double)}};

#else

/* How pixels are read: X by vectors of its own for each m; up to n_valid and only the m of a mask;
 * far apart, so that the next lines are asked for early. */
enum { COLUMNS_OWN = 1, COLUMNS_PART = 2, COLUMNS_AHEAD = 4 };

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

/* The tile of MR rows and NV vectors, and its `own` kind up to LK_MICRO_OWN. */
#    define DEFINE(NAME, VEC, NV, MR, OWN)                                \
        static void NAME##_##VEC##_##NV##_##MR(const lk__columns_args *t) \
        {                                                                 \
            VEC##_columns(MR, NV, OWN, t);                                \
        }
#    define DEFINE_6(NAME, VEC, NV, OWN) \
        DEFINE(NAME, VEC, NV, 1, OWN)    \
        DEFINE(NAME, VEC, NV, 2, OWN)    \
        DEFINE(NAME, VEC, NV, 3, OWN)    \
        DEFINE(NAME, VEC, NV, 4, OWN)    \
        DEFINE(NAME, VEC, NV, 5, OWN)    \
        DEFINE(NAME, VEC, NV, 6, OWN)
#    define DEFINE_LOW(VEC, NV)       \
        DEFINE_6(columns, VEC, NV, 0) \
        DEFINE_6(own, VEC, NV, COLUMNS_OWN)
#    define DEFINE_HIGH(VEC, NV)        \
        DEFINE_LOW(VEC, NV)             \
        DEFINE(columns, VEC, NV, 7, 0)  \
        DEFINE(columns, VEC, NV, 8, 0)  \
        DEFINE(columns, VEC, NV, 9, 0)  \
        DEFINE(columns, VEC, NV, 10, 0) \
        DEFINE(columns, VEC, NV, 11, 0) \
        DEFINE(columns, VEC, NV, 12, 0)
#    define DEFINE_TALL(VEC, NV)        \
        DEFINE(columns, VEC, NV, 13, 0) \
        DEFINE(columns, VEC, NV, 14, 0) \
        DEFINE(columns, VEC, NV, 15, 0) \
        DEFINE(columns, VEC, NV, 16, 0)

#    ifdef LK_SIMD_avx512
/* 32 registers: 24 sums, 2 of Y, 1 of X; of one vector 16 sums, so that 16 channels are one tile. */
DEFINE_HIGH(f32x16, 2)
DEFINE_HIGH(f32x16, 1)
DEFINE_TALL(f32x16, 1)
DEFINE_HIGH(f32x8, 1)
DEFINE_HIGH(f64x8, 2)
DEFINE_HIGH(f64x8, 1)
DEFINE_TALL(f64x8, 1)
DEFINE_HIGH(f64x4, 1)

#        define TABLE(W2, W1, W0, WIDE, HALF)                                                      \
            {                                                                                      \
                .width = {W2, W1, W0}, .mr = {12, 16, 12},                                         \
                .tile = {{LIST_12(columns_##WIDE##_2)},                                            \
                         {LIST_16(columns_##WIDE##_1)},                                            \
                         {LIST_12(columns_##HALF##_1)}},                                           \
                .own = {                                                                           \
                    {LIST_6(own_##WIDE##_2)}, {LIST_6(own_##WIDE##_1)}, {LIST_6(own_##HALF##_1)}}, \
            }

const lk__columns_table LK_ISA(lk__columns) = {
    .of = {[LK_F32] = TABLE(32, 16, 8, f32x16, f32x8), [LK_F64] = TABLE(16, 8, 4, f64x8, f64x4)}};
#    else
/* 16 registers: 12 sums, 2 of Y, 1 of X. */
DEFINE_LOW(f32x8, 2)
DEFINE_HIGH(f32x8, 1)
DEFINE_LOW(f64x4, 2)
DEFINE_HIGH(f64x4, 1)

#        define TABLE(W1, W0, VEC)                                                   \
            {                                                                        \
                .width = {W1, W0}, .mr = {6, 12},                                    \
                .tile = {{LIST_6(columns_##VEC##_2)}, {LIST_12(columns_##VEC##_1)}}, \
                .own = {{LIST_6(own_##VEC##_2)}, {LIST_6(own_##VEC##_1)}},           \
            }

const lk__columns_table LK_ISA(lk__columns) = {
    .of = {[LK_F32] = TABLE(16, 8, f32x8), [LK_F64] = TABLE(8, 4, f64x4)}};
#    endif

#endif
