/* The rows micro-kernel: the specification in plain C, and its tiles in vectors. */
#include "kernel/micro.h"
#include "kernel/simd/vec.h"

/* {NULL, PREFIX_1, PREFIX_2, ...}: functions by MR. */
#define LIST_3(P) NULL, P##_1, P##_2, P##_3
#define LIST_4(P) LIST_3(P), P##_4
#define LIST_6(P) LIST_4(P), P##_5, P##_6
#define LIST_9(P) LIST_6(P), P##_7, P##_8, P##_9
#define LIST_12(P) LIST_9(P), P##_10, P##_11, P##_12

#ifdef LK_SIMD_scalar

#    include <math.h>

#    define FMA_float fmaf
#    define FMA_double fma

#    define DEFINE(T, MR)                                                            \
        static void rows_##T##_##MR(const lk__rows_args *t)                          \
        {                                                                            \
            for (int m = 0; m < (MR); m++)                                           \
                for (int j = 0; j < t->n_valid; j++) {                               \
                    T *c = (T *)t->c + t->c_off[m] + j;                              \
                    T acc = t->start == LK_START_ZERO   ? 0                          \
                            : t->start == LK_START_BIAS ? ((const T *)t->bias)[j]    \
                                                        : *c;                        \
                    const T *a = (const T *)t->a + t->a_off[m];                      \
                    for (int64_t s = 0; s < t->n_seg; s++) {                         \
                        const T *w = (const T *)t->w + t->seg[s].w_row * t->ldw + j; \
                        a += t->seg[s].step;                                         \
                        for (int64_t k = 0; k < t->seg[s].len; k++)                  \
                            acc = FMA_##T(a[k], w[k * t->ldw], acc);                 \
                    }                                                                \
                    *c = acc;                                                        \
                }                                                                    \
        }

#    define DEFINE_TYPE(T)                                                                      \
        DEFINE(T, 1)                                                                            \
        DEFINE(T, 2)                                                                            \
        DEFINE(T, 3)                                                                            \
        static void rows_##T##_copy(const lk__rows_args *t)                                     \
        {                                                                                       \
            for (int64_t k = 0; t->n_seg > 0 && k < t->seg->len; k++)                           \
                for (int j = 0; j < t->n_valid; j++)                                            \
                    ((T *)t->w_copy)[k * 4 + j] = ((const T *)                                  \
                                                       t->w)[(t->seg->w_row + k) * t->ldw + j]; \
            rows_##T##_3(t);                                                                    \
        }                                                                                       \
        static void transpose_##T(void *dst, const void *src, int64_t ld, int64_t n_k,          \
                                  int n_valid, int width)                                       \
        {                                                                                       \
            for (int64_t k = 0; k < n_k; k++)                                                   \
                for (int j = 0; j < width; j++)                                                 \
                    ((T *)dst)[k * width + j] = j < n_valid ? ((const T *)src)[j * ld + k] : 0; \
        }                                                                                       \
        static void dot_##T(void *c, const void *a, const void *w, int64_t ldw, int64_t k)      \
        {                                                                                       \
            for (int j = 0; j < 4; j++)                                                         \
                for (int64_t i = 0; i < k; i++)                                                 \
                    ((T *)c)[j] = FMA_##T(((const T *)a)[i], ((const T *)w)[j * ldw + i],       \
                                          ((T *)c)[j]);                                         \
        }

DEFINE_TYPE(float)
DEFINE_TYPE(double)

#    define TABLE(T)                                                                          \
        {                                                                                     \
            .width = {4}, .mr = {3}, .tile = {{LIST_3(rows_##T)}}, .copy = {rows_##T##_copy}, \
            .transpose = transpose_##T, .dot_columns = 4, .dot_steps = 1, .dot = dot_##T      \
        }

const lk__rows_table LK_ISA(lk__rows) = {.of = {[LK_F32] = TABLE(float), [LK_F64] = TABLE(double)}};

#else

#    include "kernel/simd/vec/transpose.h"

/* Steps of k at once, and the rows of three vectors for which the compiler would have no register. */
enum { ROWS_STEPS = 4, ROWS_MANY = 8 };

#    define VEC f32x8
#    include "kernel/simd/rows_tile.h"
#    include "kernel/simd/rows_transpose.h"
#    undef VEC
#    define VEC f64x4
#    include "kernel/simd/rows_tile.h"
#    include "kernel/simd/rows_transpose.h"
#    undef VEC
#    ifdef LK_SIMD_avx512
#        define VEC f32x16
#        include "kernel/simd/rows_tile.h"
#        undef VEC
#        define VEC f64x8
#        include "kernel/simd/rows_tile.h"
#        undef VEC
#    endif

/* A tile of MR x NV vectors. */
#    define TILE(VEC, NV, MR)                          \
        if (t->w_packed && t->ldw == (NV)*VEC##_lanes) \
            VEC##_rows_packed(t, MR, NV);              \
        else                                           \
            VEC##_rows_spaced(t, MR, NV, false, false);

#    define NARROW_TILE(VEC, MR)                                \
        static void rows_##VEC##_1_##MR(const lk__rows_args *t) \
        {                                                       \
            TILE(VEC, 1, MR)                                    \
        }

/* When the last vector would be empty, a narrower tile does the work. */
#    define WIDE_TILE(VEC, NV, NARROWER, MR)                         \
        static void rows_##VEC##_##NV##_##MR(const lk__rows_args *t) \
        {                                                            \
            if (t->n_valid <= ((NV)-1) * VEC##_lanes)                \
                NARROWER##_##MR(t);                                  \
            else                                                     \
                TILE(VEC, NV, MR)                                    \
        }

#    define COPY_TILE(VEC, NV, MR)                                   \
        static void rows_##VEC##_##NV##_copy(const lk__rows_args *t) \
        {                                                            \
            if (t->n_valid == (NV)*VEC##_lanes)                      \
                VEC##_rows_spaced(t, MR, NV, true, true);            \
            else                                                     \
                VEC##_rows_spaced(t, MR, NV, true, false);           \
        }

/* For packed W and n_valid = NR only. */
#    define CLOSE_TILE(VEC, NV, MR)                                  \
        static void rows_##VEC##_##NV##_##MR(const lk__rows_args *t) \
        {                                                            \
            VEC##_rows_packed(t, MR, NV);                            \
        }

/* Every MR up to a largest. */
#    define UP_TO_4(X, ...) X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3) X(__VA_ARGS__, 4)
#    define UP_TO_6(X, ...) UP_TO_4(X, __VA_ARGS__) X(__VA_ARGS__, 5) X(__VA_ARGS__, 6)
#    define UP_TO_9(X, ...) \
        UP_TO_6(X, __VA_ARGS__) X(__VA_ARGS__, 7) X(__VA_ARGS__, 8) X(__VA_ARGS__, 9)
#    define UP_TO_12(X, ...) \
        UP_TO_9(X, __VA_ARGS__) X(__VA_ARGS__, 10) X(__VA_ARGS__, 11) X(__VA_ARGS__, 12)

#    ifdef LK_SIMD_avx2

UP_TO_12(NARROW_TILE, f32x8)
UP_TO_12(NARROW_TILE, f64x4)
UP_TO_6(WIDE_TILE, f32x8, 2, rows_f32x8_1)
UP_TO_6(WIDE_TILE, f64x4, 2, rows_f64x4_1)
UP_TO_4(WIDE_TILE, f32x8, 3, rows_f32x8_2)
UP_TO_4(WIDE_TILE, f64x4, 3, rows_f64x4_2)
COPY_TILE(f32x8, 1, 12)
COPY_TILE(f64x4, 1, 12)
COPY_TILE(f32x8, 2, 6)
COPY_TILE(f64x4, 2, 6)
COPY_TILE(f32x8, 3, 4)
COPY_TILE(f64x4, 3, 4)

#        define TABLE(VEC)                                                                      \
            {                                                                                   \
                .width = {3 * VEC##_lanes, 2 * VEC##_lanes, VEC##_lanes}, .mr = {4, 6, 12},     \
                .usual = 1, .close = 0, .transpose = VEC##_transpose_panel,                     \
                .copy = {rows_##VEC##_3_copy, rows_##VEC##_2_copy, rows_##VEC##_1_copy},        \
                .dot_columns = 4 * VEC##_lanes, .dot_steps = VEC##_lanes / 2, .dot = VEC##_dot, \
                .tile = {                                                                       \
                    {LIST_4(rows_##VEC##_3)},                                                   \
                    {LIST_6(rows_##VEC##_2)},                                                   \
                    {LIST_12(rows_##VEC##_1)}                                                   \
                }                                                                               \
            }

const lk__rows_table LK_ISA(lk__rows) = {.of = {[LK_F32] = TABLE(f32x8), [LK_F64] = TABLE(f64x4)}};

#    else

UP_TO_12(NARROW_TILE, f32x8)
UP_TO_12(NARROW_TILE, f64x4)
UP_TO_12(NARROW_TILE, f32x16)
UP_TO_12(NARROW_TILE, f64x8)
UP_TO_9(WIDE_TILE, f32x8, 3, rows_f32x16_1)
UP_TO_9(WIDE_TILE, f64x4, 3, rows_f64x8_1)
UP_TO_12(WIDE_TILE, f32x16, 2, rows_f32x16_1)
UP_TO_12(WIDE_TILE, f64x8, 2, rows_f64x8_1)
UP_TO_6(CLOSE_TILE, f32x16, 4)
UP_TO_6(CLOSE_TILE, f64x8, 4)
COPY_TILE(f32x8, 1, 12)
COPY_TILE(f64x4, 1, 12)
COPY_TILE(f32x16, 1, 12)
COPY_TILE(f64x8, 1, 12)
COPY_TILE(f32x8, 3, 9)
COPY_TILE(f64x4, 3, 9)
COPY_TILE(f32x16, 2, 12)
COPY_TILE(f64x8, 2, 12)

/* Three half-wide vectors for 3/2 of a wide one: a processor that splits wide vectors in two would
 * waste a half.  Four wide ones where k is short: a step then has ten loads instead of fourteen. */
#        define TABLE(VEC, HALF)                                                         \
            {                                                                            \
                .width = {2 * VEC##_lanes, 3 * HALF##_lanes, VEC##_lanes, HALF##_lanes,  \
                          4 * VEC##_lanes},                                              \
                .mr = {12, 9, 12, 12, 6}, .usual = 0, .close = LK_MICRO_WIDTHS,          \
                .copy = {rows_##VEC##_2_copy, rows_##HALF##_3_copy, rows_##VEC##_1_copy, \
                         rows_##HALF##_1_copy},                                          \
                .transpose = HALF##_transpose_panel, .dot_columns = 4 * HALF##_lanes,    \
                .dot_steps = HALF##_lanes / 2, .dot = HALF##_dot,                        \
                .tile = {{LIST_12(rows_##VEC##_2)},                                      \
                         {LIST_9(rows_##HALF##_3)},                                      \
                         {LIST_12(rows_##VEC##_1)},                                      \
                         {LIST_12(rows_##HALF##_1)},                                     \
                         {LIST_6(rows_##VEC##_4)}},                                      \
            }

const lk__rows_table LK_ISA(lk__rows) = {
    .of = {[LK_F32] = TABLE(f32x16, f32x8), [LK_F64] = TABLE(f64x8, f64x4)}};

#    endif
#endif
