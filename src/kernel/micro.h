/* The two micro-kernels under matrix multiplication and convolution.
 *
 * Both hold a tile of MR x NR outputs in registers, one fused-multiply-add chain each, and step k
 * upwards.  Vectors run across the NR outputs, never across k, so every instruction set and every
 * tile shape gives the same bits.
 *
 *   rows     C[m][j] = chain over k of A_m[k] * W[k][j].  Each of the MR rows has its own pointer
 *            into A, and k walks through *segments*: runs of consecutive A elements.  A matrix is
 *            one segment; a convolution has one per kernel row.  Rows of one tile share their
 *            segment list, so a tap that falls into the padding is left out of the list.
 *
 *   columns  C[m][j] = chain over pixels p of X[p][m] * Y[p][j].  The MR entries of X are
 *            consecutive in memory.  Pixels form images of rows of *phases*, runs of pixels with
 *            the same set of valid m.
 *
 * Both may start from zero, from a bias or from a partial result, so cutting k is exact.  Neither
 * reads or writes outside its operands: with n_valid < NR, loads and stores are masked.
 */
#ifndef LK_KERNEL_MICRO_H
#define LK_KERNEL_MICRO_H

#include "kernel/runtime/isa.h"

#include <lockstep/dtype.h>

enum {
    LK_MICRO_MR = 12,   /* rows of a tile at most */
    LK_COLUMNS_MR = 16, /* of the columns micro-kernel */
    LK_MICRO_OWN = 6,
    LK_MICRO_WIDTHS = 4,
    LK_MICRO_TILES = 5
};

/* Where a chain starts. */
typedef enum lk__start { LK_START_ZERO, LK_START_BIAS, LK_START_C } lk__start;

/* A run of `len` > 0 consecutive A elements: add `step` to every row's pointer (which then points
 * to the run's first element), and multiply with rows w_row ... w_row + len - 1 of W.  `step` is
 * relative to the first element of the segment before. */
typedef struct lk__segment {
    int64_t step, len, w_row;
} lk__segment;

/* Rows of A may be anywhere if W is packed and NR is the width that lk__rows_pick() has for n_valid;
 * otherwise they are equally far apart. */
typedef struct lk__rows_args {
    const lk__segment *seg;
    int64_t n_seg;        /* 0: the chain is only its start */
    const void *a;        /* row m starts at a + a_off[m] */
    const int64_t *a_off; /* in elements */
    const void *w;        /* W[k][j] at w + k * ldw + j */
    int64_t ldw;
    void *c; /* C[m][j] at c + c_off[m] + j */
    const int64_t *c_off;
    const void *bias; /* n_valid values, for LK_START_BIAS */
    lk__start start;
    int n_valid;   /* columns to write, 1..NR; W has as many unless it is packed to NR */
    bool w_packed; /* W's rows are readable up to NR */
    void *w_copy;  /* for `copy`: where W's rows go, NR apart */
} lk__rows_args;

/* `n` pixels from column `first` on, for which only the m with bit m of `mask` set take part. */
typedef struct lk__phase {
    int64_t first, n;
    uint32_t mask;
} lk__phase;

typedef struct lk__columns_args {
    int64_t n_images, n_rows; /* rows of each image */
    const lk__phase *phase;   /* the same in every row */
    int64_t n_phase;
    const void *x; /* X[i][r][c][m] at x + i * x_image + r * x_row + c * x_col + m */
    int64_t x_image, x_row, x_col;
    int64_t x_m;   /* `own` tiles: X[i][r][c][m][j] at m * x_m + j instead of m */
    const void *y; /* Y[i][r][c][j] at y + i * y_image + r * y_row + c * y_col + j */
    int64_t y_image, y_row, y_col;
    const void *partial; /* start from it (leading dimension ld_partial), or NULL for +0 */
    int64_t ld_partial;
    const void *const *add; /* afterwards acc = add[q] + acc, q ascending, at ld_add */
    int n_add;
    int64_t ld_add;
    void *out; /* out[m][j] at out + m * ld_out + j */
    int64_t ld_out;
    bool accumulate;   /* last of all, acc = old out + acc */
    int n_valid;       /* columns to write, 1..NR; Y has as many unless it is packed to NR */
    bool y_packed;     /* Y's rows are readable up to NR */
    const char *next;  /* memory that will be needed later, or NULL: fetched meanwhile, */
    int64_t next_step; /* this many bytes with each pixel */
} lk__columns_args;

typedef void lk__rows_fn(const lk__rows_args *t);
typedef void lk__columns_fn(const lk__columns_args *t);

/* dst[k][j] = src[j * ld + k] for k < n_k, j < n_valid; columns up to `width` are zero. */
typedef void lk__transpose_fn(void *dst, const void *src, int64_t ld, int64_t n_k, int n_valid,
                              int width);

/* c[j] = chain over i < k of a[i] * w[j * ldw + i], from c[j], for j < dot_columns; k is a multiple
 * of dot_steps. */
typedef void lk__dot_fn(void *c, const void *a, const void *w, int64_t ldw, int64_t k);

/* Tiles on offer for one element type: NR widths, widest first (0 where there are fewer), and for
 * each width the largest MR.  Functions are indexed by width and MR.  `usual` is the index of the
 * width for long runs of columns; a wider one serves only the end of a run.  `close` is the index of
 * the width that is best where a whole panel stays in the first-level cache: one of those, or one
 * behind them whose tiles take packed W and n_valid = NR only. */
typedef struct lk__rows_type {
    int width[LK_MICRO_TILES], mr[LK_MICRO_TILES];
    int usual, close;
    lk__rows_fn *tile[LK_MICRO_TILES][LK_MICRO_MR + 1];
    /* The largest tile of a width, for W in place and one segment: it also copies the rows of W that
     * it reads, so that the tiles after it find them packed at no cost. */
    lk__rows_fn *copy[LK_MICRO_WIDTHS];
    lk__transpose_fn *transpose;
    int dot_columns, dot_steps;
    lk__dot_fn *dot;
} lk__rows_type;

/* The index of the width for the next block when `n` > 0 columns are left: the narrowest that
 * holds them all, else the usual one. */
static inline int lk__rows_pick(const lk__rows_type *t, int64_t n)
{
    int best = t->usual;
    for (int i = 0; i < LK_MICRO_WIDTHS && t->width[i] >= n; i++)
        best = i;
    return best;
}

/* `own`: each m has a vector of X, element j of which meets element j of Y (depthwise
 * convolution: m are kernel columns, j channels).  X is read as far as n_valid and Y never packed,
 * and MR is LK_MICRO_OWN at most. */
typedef struct lk__columns_type {
    int width[LK_MICRO_WIDTHS], mr[LK_MICRO_WIDTHS];
    lk__columns_fn *tile[LK_MICRO_WIDTHS][LK_COLUMNS_MR + 1];
    lk__columns_fn *own[LK_MICRO_WIDTHS][LK_MICRO_OWN + 1];
} lk__columns_type;

/* By lk_dtype, f32 and f64. */
typedef struct lk__rows_table {
    lk__rows_type of[2];
} lk__rows_table;

typedef struct lk__columns_table {
    lk__columns_type of[2];
} lk__columns_table;

LK_ISA_TABLE(lk__rows_table, lk__rows)
LK_ISA_TABLE(lk__columns_table, lk__columns)

#endif /* LK_KERNEL_MICRO_H */
