/* Typed calls of the built-in ops.
 *
 * Each computes `*out` from values on a tape and records itself there; the tape is that of the first
 * argument, and all must be of one.  Values are f32 or f64, the same in one call, unless it says
 * otherwise.  `*out` belongs to the tape (see autograd.h).  None is collective.
 *
 * Element-wise ops broadcast: axes are matched from the last one backwards, and one of size 1, or
 * one that is not there, is repeated.
 *
 * Sums over the first axis, the batch, are cut into pieces of lk_tape_piece() samples.
 *
 * Errors of all: LK_ESHAPE and LK_EDTYPE naming both operands, LK_EINVAL for an attribute out of
 * range and for LK_NO_VAR, LK_ESTATE for a value that is gone, LK_ENOMEM, LK_EFPENV.  `*out` is
 * then LK_NO_VAR.
 *
 * The same ops by name: lk_op_find() and lk_apply(), with the structs here as attributes.
 */
#ifndef LK_OPS_H
#define LK_OPS_H

#include <lockstep/autograd.h>

LK_BEGIN_DECLS

/* ---- arithmetic and functions, element by element ---- */

/** x + y. */
LK_API lk_status lk_add(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** x * y. */
LK_API lk_status lk_mul(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/* ---- shapes and elements ---- */

/** x with axes of size 1 repeated and axes added in front to become `shape`; a view, any dtype. */
LK_API lk_status lk_broadcast(lk_var x, lk_shape shape, lk_var *out) LK_NODISCARD;

/* ---- reductions over axes ---- */

/** x summed over the axes along which `shape` is broadcast to x's shape; x itself if none. */
LK_API lk_status lk_sum_to(lk_var x, lk_shape shape, lk_var *out) LK_NODISCARD;

/* ---- products of matrices, convolution and pooling ---- */

/* ---- normalisation, dropout and embedding ---- */

/* ---- softmax and losses ---- */

LK_END_DECLS

#endif /* LK_OPS_H */
