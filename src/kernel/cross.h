/* Micro-kernels of matrix multiplication alone.
 *
 *   strip  C = A W for many rows and packed panels of W: full tiles below and beside each other, in
 *          one call because a call costs as much as a short chain.
 *
 *   cross  C[m][j] = chain over k of X[k][m] * Y[k][j]: the product of two matrices stored by
 *          samples, as in the weight gradient of a linear layer.  Tiles of MR x NR outputs stay in
 *          registers.
 *
 *   tree   The same where k is cut into pieces, each a chain, joined by a tree.  Half as many rows
 *          stay in registers for two pieces at a time, because a store costs as much as two
 *          multiply-adds; the partial sums of the tree wait in the first-level cache.
 *
 *   gemv   c[j] += chain over k of a[k] * W[k][j].  W is read by rows, a few at a time, because
 *          that is how it streams fastest; c goes through memory, which does not change a chain.
 */
#ifndef LK_KERNEL_CROSS_H
#define LK_KERNEL_CROSS_H

#include "kernel/micro.h"

/* A call takes at most so many steps of k if it is cut into pieces, and its tree then holds at most
 * so many partial sums. */
enum { LK_CROSS_STEPS = 256, LK_CROSS_LEVELS = 7, LK_CROSS_WIDTHS = 2 };

/* Functions for all of k at once, and for a part of it. */
enum { LK_CROSS_WHOLE, LK_CROSS_PART, LK_CROSS_KINDS };

/* Bytes of a line of the cache, as far as memory is asked for. */
enum { LK_CROSS_LINE = 64 };

/* Tiles in a group: so many of them read the same lines of X. */
#define LK_CROSS_GROUP(elem_bytes) (16 / (int)(elem_bytes))

typedef struct lk__strip_args {
    const void *a; /* A[m][k] at a + m * lda + k */
    int64_t lda, k;
    const void *w; /* W[k][j] of panel p at w + (p * k + k) * NR + j */
    lk__start start;
    const void *bias; /* n_panels * NR values, for LK_START_BIAS */
    void *c;          /* C[m][j] of panel p at c + m * ldc + p * NR + j */
    int64_t ldc;
    int64_t n_tiles, n_panels; /* tiles of MR x NR below and beside each other */
    const char *next;          /* memory that will be needed later, or NULL: the first tile asks */
    int64_t next_step;         /* for it, this many bytes further on with each step */
} lk__strip_args;

/* What a part of k begins with, is joined with, and asks for.  A slot has all columns of its tiles; slot
 * l is at slots + l * slot_size, and its rows are ld_slot apart. */
typedef struct lk__cross_part {
    const void *slots;
    int64_t slot_size, ld_slot;
    const void *partial; /* tile: the slot with the piece so far, or NULL */
    int64_t joins;       /* then acc = slot l + acc for each bit l, from the lowest up */
    const char
        *next; /* memory that will be needed later: each of the first n_next tiles asks for */
    int64_t next_step; /* a line of it with every step, the next tile for the line beside */
    int64_t n_next;
} lk__cross_part;

typedef struct lk__cross_args {
    const void *x;                   /* X[k][m] of tile i, which is number q of group g, at */
    int64_t x_group, x_tile, x_step; /* x + g * x_group + q * x_tile + k * x_step + m */
    const void *y;                   /* Y[k][j] at y + k * y_step + j, readable up to NR */
    int64_t y_step;
    int64_t n_tiles;
    int64_t k, piece; /* piece 0: one chain from its start; else start is added last;
                       * a tile takes at most one piece, a tree any number */
    lk__start start;
    const void *bias; /* n_valid values, for LK_START_BIAS */
    void *c;          /* C[m][j] of tile i at c + (i * MR + m) * ldc + j */
    int64_t ldc;
    int64_t ahead; /* a tile asks for C from here on to be in the cache: 0 is its own place */
    int n_valid;   /* columns to write, 1..NR */
    void *level;   /* tree: room for LK_CROSS_LEVELS tiles */
    const lk__cross_part *part; /* for LK_CROSS_PART */
} lk__cross_args;

typedef void lk__cross_fn(const lk__cross_args *t);
typedef void lk__strip_fn(const lk__strip_args *t);

/* dst[k][j] = src[k * ld + j] for k < n_k, j < n; rows of dst are `width` apart, and their columns
 * from n up to it are zero. */
typedef void lk__cross_pack_fn(void *dst, const void *src, int64_t ld, int64_t n_k, int n,
                               int width);

/* Tiles for one element type: NR widths, widest first, functions by kind, width and MR <= mr, or
 * tree_mr for the tree.  Strips have the first width. */
typedef struct lk__cross_type {
    int width[LK_CROSS_WIDTHS], mr, tree_mr;
    lk__strip_fn *strip[LK_MICRO_MR + 1];
    lk__cross_fn *tile[LK_CROSS_KINDS][LK_CROSS_WIDTHS][LK_MICRO_MR + 1];
    lk__cross_fn *tree[LK_CROSS_KINDS][LK_CROSS_WIDTHS][LK_MICRO_MR / 2 + 1];
    lk__cross_pack_fn *pack;
} lk__cross_type;

/* c[j] = chain over k' < k of a[k' * a_step] * w[k' * ldw + j], from c[j], or from +0 if `zero` and
 * k > 0, for j < n. */
typedef void lk__gemv_fn(void *c, const void *a, int64_t a_step, const void *w, int64_t ldw,
                         int64_t k, int64_t n, bool zero);

/* By lk_dtype, f32 and f64. */
typedef struct lk__cross_table {
    lk__cross_type of[2];
    lk__gemv_fn *gemv[2];
} lk__cross_table;

LK_ISA_TABLE(lk__cross_table, lk__cross)

#endif /* LK_KERNEL_CROSS_H */
