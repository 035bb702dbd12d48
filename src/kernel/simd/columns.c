/* The columns micro-kernel in plain C: the specification of micro.h. */
#include "kernel/micro.h"

#include <math.h>

#define FMA_float fmaf
#define FMA_double fma

#define DEFINE(T, MR)                                                                         \
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

#define DEFINE_TYPE(T) \
    DEFINE(T, 1)       \
    DEFINE(T, 2)       \
    DEFINE(T, 3)

DEFINE_TYPE(float)
DEFINE_TYPE(double)

#define TABLE(T)                                                             \
    {                                                                        \
        .width = {4}, .mr = {3},                                             \
        .tile = {{NULL, columns_##T##_1, columns_##T##_2, columns_##T##_3}}, \
    }

const lk__columns_table LK_ISA(lk__columns) = {
    .of = {[LK_F32] = TABLE(float), [LK_F64] = TABLE(double)}};
