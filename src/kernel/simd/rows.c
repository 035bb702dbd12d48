/* The rows micro-kernel in plain C: the specification of micro.h. */
#include "kernel/micro.h"

#include <math.h>

#define FMA_float fmaf
#define FMA_double fma

#define DEFINE(T, MR)                                                            \
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

#define DEFINE_TYPE(T)                                                                          \
    DEFINE(T, 1)                                                                                \
    DEFINE(T, 2)                                                                                \
    DEFINE(T, 3)                                                                                \
    static void transpose_##T(void *dst, const void *src, int64_t ld, int64_t n_k, int n_valid, \
                              int width)                                                        \
    {                                                                                           \
        for (int64_t k = 0; k < n_k; k++)                                                       \
            for (int j = 0; j < width; j++)                                                     \
                ((T *)dst)[k * width + j] = j < n_valid ? ((const T *)src)[j * ld + k] : 0;     \
    }

DEFINE_TYPE(float)
DEFINE_TYPE(double)

#define TABLE(T)                                                                             \
    {                                                                                        \
        .width = {4}, .mr = {3}, .tile = {{NULL, rows_##T##_1, rows_##T##_2, rows_##T##_3}}, \
        .transpose = transpose_##T,                                                          \
    }

const lk__rows_table LK_ISA(lk__rows) = {.of = {[LK_F32] = TABLE(float), [LK_F64] = TABLE(double)}};
