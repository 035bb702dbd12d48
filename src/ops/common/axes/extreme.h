/* The largest or the smallest element of each group: where it is, and how its gradient gets there.
 *
 * Attributes of the ops begin with an lk_axes.  Of equal elements the first in row-major order
 * counts, and so does the first NaN.
 */
#ifndef LK_OPS_COMMON_EXTREME_H
#define LK_OPS_COMMON_EXTREME_H

#include <lockstep/op.h>

/** The infer of an op that finds positions: as lk__axes_infer(), but i64. */
lk_status lk__extreme_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** y[0] = the position in each group of its largest element, or of its smallest; i64.  Errors:
 * LK_ESHAPE when groups are empty. */
lk_status lk__extreme_find(lk_call *c, bool smallest) LK_NODISCARD;

/** The backward of max and min, whose `data` is an lk_reduce_axis_op: dout goes to the elements that
 * were found, zeros to others. */
lk_status lk__extreme_backward(lk_call *c, const lk_var *dout, lk_var *din) LK_NODISCARD;

#endif /* LK_OPS_COMMON_EXTREME_H */
