/* The micro-kernel of depthwise convolution, where every channel is convolved on its own:
 *
 *     C_m[j] = chain over the taps t of A_m[a_t + j] * W[w_t + j]
 *
 * for positions m and channels j.  Vectors run across channels, so it is element-wise but for the
 * chains.  Neither reads nor writes outside its operands.
 */
#ifndef LK_KERNEL_DEPTHWISE_H
#define LK_KERNEL_DEPTHWISE_H

#include "kernel/micro.h"

/* Where a tap is: elements from a position's first in A, and from W's first. */
typedef struct lk__depthwise_tap {
    int64_t a, w;
} lk__depthwise_tap;

typedef struct lk__depthwise_args {
    const lk__depthwise_tap *tap;
    int64_t n_taps; /* 0: the chain is only its start */
    int64_t n_positions, n_channels;
    const void *a; /* position m starts at a + a_off[m] */
    const int64_t *a_off;
    const void *w;
    void *c; /* at c + c_off[m] */
    const int64_t *c_off;
    const void *bias; /* n_channels values, for LK_START_BIAS */
    lk__start start;
} lk__depthwise_args;

typedef void lk__depthwise_fn(const lk__depthwise_args *t);

/* By lk_dtype, f32 and f64. */
typedef struct lk__depthwise_table {
    lk__depthwise_fn *of[2];
} lk__depthwise_table;

LK_ISA_TABLE(lk__depthwise_table, lk__depthwise)

#endif /* LK_KERNEL_DEPTHWISE_H */
