/* The micro-kernels in plain C: the specification of micro.h. */
#include "kernel/micro.h"

#include <math.h>

#define FMA_float fmaf
#define FMA_double fma

#define DEFINE(T, MR, NR)                                                                     \
    static void rows_##T##_##MR(const lk__rows_args *t)                                       \
    {                                                                                         \
        for (int m = 0; m < (MR); m++)                                                        \
            for (int j = 0; j < t->n_valid; j++) {                                            \
                T *c = (T *)t->c + t->c_off[m] + j;                                           \
                T acc = t->start == LK_START_ZERO   ? 0                                       \
                        : t->start == LK_START_BIAS ? ((const T *)t->bias)[j]                 \
                                                    : *c;                                     \
                const T *a = (const T *)t->a + t->a_off[m];                                   \
                for (int64_t s = 0; s < t->n_seg; s++) {                                      \
                    const T *w = (const T *)t->w + t->seg[s].w_row * t->ldw + j;              \
                    a += t->seg[s].step;                                                      \
                    for (int64_t k = 0; k < t->seg[s].len; k++)                               \
                        acc = FMA_##T(a[k], w[k * t->ldw], acc);                              \
                }                                                                             \
                *c = acc;                                                                     \
            }                                                                                 \
    }                                                                                         \
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
                ((T *)t->out)[m * t->ld_out + j] = acc;                                       \
            }                                                                                 \
    }

#define DEFINE_TYPE(T)                                                                          \
    DEFINE(T, 1, 4)                                                                             \
    DEFINE(T, 2, 4)                                                                             \
    DEFINE(T, 3, 4)                                                                             \
    static void transpose_##T(void *dst, const void *src, int64_t ld, int64_t n_k, int n_valid, \
                              int width)                                                        \
    {                                                                                           \
        for (int64_t k = 0; k < n_k; k++)                                                       \
            for (int j = 0; j < width; j++)                                                     \
                ((T *)dst)[k * width + j] = j < n_valid ? ((const T *)src)[j * ld + k] : 0;     \
    }

DEFINE_TYPE(float)
DEFINE_TYPE(double)

#define TABLE(T)                                                                           \
    {                                                                                      \
        .mr = 3, .width = {4}, .rows = {{NULL, rows_##T##_1, rows_##T##_2, rows_##T##_3}}, \
        .columns = {{NULL, columns_##T##_1, columns_##T##_2, columns_##T##_3}},            \
        .transpose = transpose_##T,                                                        \
    }

const lk__micro LK_ISA(lk__micro) = {.f32 = TABLE(float), .f64 = TABLE(double)};
