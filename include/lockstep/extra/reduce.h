/* Reductions under canonical arithmetic: lanes, pieces and the fixed pairwise tree.
 *
 * A reduction over n elements is cut into pieces of `piece` elements (0: one piece; the last may be
 * shorter).  Within a piece element i belongs to lane i mod 16; each lane is one chain from the
 * operator's neutral element, i ascending.  The 16 lanes are joined by the fixed tree, and so are
 * the pieces:
 *
 *     tree(v0 ... v(n-1)) = tree(v0 ... v(h-1)) op tree(vh ... v(n-1)),   h = the largest power of
 *                                                                        two below n
 *
 *             +                 n = 5: ((v0+v1)+(v2+v3))+v4
 *           /   \
 *         +      v4             The lower index is always the first operand.  A rank that holds
 *       /   \                   an aligned power-of-two range of pieces can join them alone, and
 *      +     +                  which rank holds what never matters.
 *     / \   / \
 *    v0 v1 v2 v3
 */
#ifndef LK_REDUCE_H
#define LK_REDUCE_H

#include <lockstep/dtype.h>

LK_BEGIN_DECLS

enum { LK_LANES = 16 };

#define LK_REDUCE_AXIS_MAP(X)                                     \
    X(SUM, "sum", "x0 + x1 + ...")                                \
    X(PROD, "prod", "x0 * x1 * ...")                              \
    X(MAX, "max", "the largest; NaN if one is NaN; -inf if none") \
    X(MIN, "min", "the smallest; NaN if one is NaN; inf if none") \
    X(SUMSQ, "sumsq", "x0^2 + x1^2 + ..., chains of fma")

typedef enum lk_reduce_axis_op {
#define X(code, name, formula) LK_REDUCE_AXIS_##code,
    LK_REDUCE_AXIS_MAP(X)
#undef X
        LK_N_REDUCE_AXIS_OPS
} lk_reduce_axis_op;

LK_API const char *lk_reduce_axis_op_name(lk_reduce_axis_op op);
LK_API const char *lk_reduce_axis_op_formula(lk_reduce_axis_op op);

/** The middle axis of x [outer][n][inner] is reduced: y [outer][inner]. */
typedef struct lk_reduce_axis_shape {
    int64_t outer, n, inner;
    int64_t piece; /* elements of the middle axis per piece; 0: all */
} lk_reduce_axis_shape;

/**
 * y[o][i] = op over j of x[o][j][i].
 *
 * Not collective.  `dtype` is f32 or f64.  `y` must not overlap `x`.  Nothing is allocated.
 *
 * Errors: LK_EDTYPE, LK_EINVAL, LK_EOVERFLOW, LK_EOVERLAP, LK_EFPENV.
 */
LK_API lk_status lk_reduce_axis(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_axis_shape *s,
                                const void *x, void *y) LK_NODISCARD;

/**
 * Rows of channels in a box of a larger array: x [samples][n[0]][n[1]][n[2]][channels], channels
 * consecutive.  Unused axes have n 1.
 *
 * Steps are elements from one sample, or position of an axis, to the next; 0 means dense.  A step is at
 * least what lies within it.
 */
typedef struct lk_reduce_box_shape {
    int64_t samples, n[3], channels;
    int64_t sample_step, step[3];
    int64_t piece; /* samples of a piece, the last may have fewer; 0: all */
} lk_reduce_box_shape;

/**
 * y[p][c] = op over the rows of piece p of x[row][c]: the samples of the piece, in each its positions in
 * raster order.
 *
 * Row i of a piece belongs to lane i mod 16, and the lanes are joined by the tree: the bits are those of
 * lk_reduce_axis() with outer 1, piece 0 on a dense copy of the piece.  Pieces are not joined; there are
 * samples / piece of them, rounded up, and of no samples none.  A piece without positions gives the
 * neutral element.
 *
 * Not collective.  `dtype` is f32 or f64.  `y` must not overlap `x`, from its first to its last element.
 * Nothing is allocated.
 *
 * Errors: LK_EDTYPE, LK_EINVAL, LK_ESHAPE (a step is less than what lies within it), LK_EOVERFLOW,
 * LK_EOVERLAP, LK_EFPENV.
 */
LK_API lk_status lk_reduce_box(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_box_shape *s,
                               const void *x, void *y) LK_NODISCARD;

/** The fixed tree as a stream: pieces are pushed in order, at most 64 partial sums are held.  Made by
 * the code that adds pieces up; one thread at a time.  Not collective. */
typedef struct lk_tree lk_tree;

/**
 * A tree over vectors of `count` elements of f32 or f64.  The caller owns it.
 *
 * Not collective.  Errors: LK_EDTYPE, LK_EINVAL, LK_EOVERFLOW, LK_ENOMEM.
 */
LK_API lk_status lk_tree_new(lk_dtype dtype, int64_t count, lk_tree **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_tree_free(lk_tree *tree);

/**
 * Add the next piece, `count` elements (copied).  After a failure the tree is as it was.
 *
 * Not collective.  Errors: LK_EINVAL, LK_ENOMEM, LK_EFPENV.
 */
LK_API lk_status lk_tree_push(lk_tree *tree, const void *piece) LK_NODISCARD;

/**
 * Write the sum of all pieces (zeros if there were none) to `sum` and start anew, keeping memory.
 *
 * Not collective.  Errors: LK_EINVAL, LK_EFPENV.
 */
LK_API lk_status lk_tree_finish(lk_tree *tree, void *sum) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_REDUCE_H */
