/* The inner loops of reductions, by instruction set, element type and operator. */
#ifndef LK_KERNEL_REDUCE_H
#define LK_KERNEL_REDUCE_H

#include "kernel/runtime/isa.h"

#include <lockstep/extra/reduce.h>

/* y[r] = op over i < n of x[r * n + i], r < rows. */
typedef void lk__reduce_rows_fn(int64_t rows, int64_t n, const void *x, void *y);

/* A block of neighbouring columns of a matrix; `lane` is room for 16 * width elements. */
typedef struct lk__reduce_block {
    const void *x; /* element (j, c) at j * ld + c */
    int64_t n, width, ld;
    void *lane;
} lk__reduce_block;

/* y[c] = op over j < n of x[j * ld + c], c < width. */
typedef void lk__reduce_columns_fn(const lk__reduce_block *t, void *y);

/* The same in three steps, for rows that are not all as far apart.  Lanes begin neutral; row j of the
 * block goes to lane (first + j) mod 16, first < 16; the tree over the lanes goes to y. */
typedef void lk__reduce_begin_fn(const lk__reduce_block *t);
typedef void lk__reduce_add_fn(const lk__reduce_block *t, int64_t first);
typedef void lk__reduce_end_fn(const lk__reduce_block *t, void *y);

/* a[i] = a[i] op b[i], i < n: one join for each i. */
typedef void lk__reduce_join_fn(int64_t n, void *a, const void *b);

/* Indexed by lk_reduce_axis_op. */
typedef struct lk__reduce_type {
    lk__reduce_rows_fn *rows[LK_N_REDUCE_AXIS_OPS];
    lk__reduce_columns_fn *columns[LK_N_REDUCE_AXIS_OPS];
    lk__reduce_begin_fn *begin[LK_N_REDUCE_AXIS_OPS];
    lk__reduce_add_fn *add[LK_N_REDUCE_AXIS_OPS];
    lk__reduce_end_fn *end[LK_N_REDUCE_AXIS_OPS];
    lk__reduce_join_fn *join[LK_N_REDUCE_AXIS_OPS];
} lk__reduce_type;

/* By lk_dtype, f32 and f64. */
typedef struct lk__reduce_table {
    lk__reduce_type of[2];
} lk__reduce_table;

LK_ISA_TABLE(lk__reduce_table, lk__reduce)

enum {
    LK_REDUCE_BLOCK_BYTES = 512, /* the widest block of columns, in bytes of a row */
    LK_REDUCE_LINE_BYTES = 64,   /* narrower blocks would share cache lines */
    LK_REDUCE_SMALL = 1 << 17,   /* bytes that are not cut for several threads */
};

/* Columns of a block when `columns` > 0 are cut into at least `wanted` blocks, or as many as there can
 * be. */
int64_t lk__reduce_width(int64_t columns, int64_t elem, int64_t wanted);

#endif /* LK_KERNEL_REDUCE_H */
