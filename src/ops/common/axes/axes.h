/* Axes that attributes name. */
#ifndef LK_OPS_COMMON_AXES_H
#define LK_OPS_COMMON_AXES_H

#include <lockstep/extra/reduce.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>

/** Whether input 0 has this axis.  Errors: LK_EINVAL naming op, axis and input. */
lk_status lk__axis_check(const lk_call *c, int axis) LK_NODISCARD;

/* ---- ops whose attributes begin with an lk_axes: input 0 is reduced over them ---- */

/** What is passed on where the program gave NULL. */
extern const lk_axes lk__all_axes;

/** The axes as bits, checked.  Errors: LK_EINVAL. */
lk_status lk__axes_check(const lk_call *c, unsigned *out) LK_NODISCARD;

/** The axes as bits, for a call that was checked. */
unsigned lk__axes_bits(const lk_axes *axes, int ndim);

/** `shape` with the axes of `bits` of size 1, or without them. */
lk_shape lk__axes_reduced(lk_shape shape, unsigned bits, bool keep);

/** Elements of `shape` along the axes of `bits`; of an empty one at most INT64_MAX. */
int64_t lk__axes_count(lk_shape shape, unsigned bits);

/** The infer of a reduction: input 0 is real, the output has its dtype.  Errors: LK_EDTYPE, LK_EINVAL. */
lk_status lk__axes_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** The forward of a reduction whose `data` is an lk_reduce_axis_op: lk__reduce_axes() by it. */
lk_status lk__axes_forward(lk_call *c) LK_NODISCARD;

/* Samples of a reduction: all axes, some in any order, one. */
extern const lk_op_sample lk__axes_samples[];

/** In backward: *out = g, of the output's shape, with reduced axes of size 1, so that it broadcasts
 * to the input; a view. */
lk_status lk__axes_widen(const lk_call *c, lk_var g, lk_var *out) LK_NODISCARD;

/** *out = x / n, as lk_mean() divides a sum. */
lk_status lk__mean_over(lk_var x, int64_t n, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_AXES_H */
