/* The transforms of Winograd's F(4x4, 3x3): vectors run across channels, so they are element-wise.
 *
 * Along one axis, with the points 0, 1, -1, 2, -2 and infinity; every operation is rounded, in this
 * order:
 *
 *   input    v0 = fma(4, d0, fma(-5, d2, d4))                      six of x give six
 *            p = fma(-4, d2, d4), q = fma(-4, d1, d3):  v1 = p + q, v2 = p - q
 *            r = d4 - d2, s = d3 - d1:  v3 = fma(2, s, r), v4 = fma(-2, s, r)
 *            v5 = fma(4, d1, fma(-5, d3, d5))
 *   weights  a = g0 + g2, b = fma(4, g2, g0)                       three of w give six
 *            u0 = g0 * 1/4, u1 = (a + g1) * -1/6, u2 = (a - g1) * -1/6
 *            u3 = fma(2, g1, b) * 1/24, u4 = fma(-2, g1, b) * 1/24, u5 = g2
 *   output   a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4    six sums give four of y
 *            y0 = (m0 + a) + c, y1 = fma(2, d, b), y2 = fma(4, c, a), y3 = fma(8, d, b) + m5
 *
 * Each is applied along the first axis, then along the second.  Component 6 i + j is place i along
 * the first and j along the second.
 */
#ifndef LK_KERNEL_WINOGRAD_H
#define LK_KERNEL_WINOGRAD_H

#include "kernel/micro.h"

/* Positions of a tile of y and of x along an axis; components of both axes; taps of both. */
enum { LK_WINO_OUT = 4, LK_WINO_IN = 6, LK_WINO_PARTS = 36, LK_WINO_TAPS = 9 };

/* Component c of channel j at v + c * step + j.  Channels from n up to a multiple of the lanes are
 * written too. */
typedef struct lk__wino_input {
    const void *at[LK_WINO_PARTS]; /* the first channel of each position, in raster order */
    int64_t n;                     /* channels */
    void *v;
    int64_t step;
} lk__wino_input;

/* Component c of row k, column j at u + c * step + k * width + j; columns from n_valid on are 0. */
typedef struct lk__wino_weights {
    const void *tap[LK_WINO_TAPS]; /* row k of a tap at ld * k */
    int64_t ld, n_k;
    int n_valid, width;
    void *u;
    int64_t step;
} lk__wino_weights;

/* Component c of channel j at m + c * step + j. */
typedef struct lk__wino_output {
    const void *m;
    int64_t step;
    int64_t n; /* channels */
    void *c;   /* position (r, s) at c + r * c_row + s * c_col */
    int64_t c_row, c_col;
    int rows, cols;   /* positions that exist, 1 to 4 */
    lk__start start;  /* what is added last */
    const void *bias; /* n values, for LK_START_BIAS */
} lk__wino_output;

typedef void lk__wino_input_fn(const lk__wino_input *t);
typedef void lk__wino_weights_fn(const lk__wino_weights *t);
typedef void lk__wino_output_fn(const lk__wino_output *t);

typedef struct lk__wino_type {
    lk__wino_input_fn *input;
    lk__wino_weights_fn *weights;
    lk__wino_output_fn *output;
} lk__wino_type;

/* By lk_dtype, f32 and f64. */
typedef struct lk__wino_table {
    lk__wino_type of[2];
} lk__wino_table;

LK_ISA_TABLE(lk__wino_table, lk__wino)

#endif /* LK_KERNEL_WINOGRAD_H */
