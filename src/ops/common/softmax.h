/* What softmax and log_softmax share. */
#ifndef LK_OPS_COMMON_SOFTMAX_H
#define LK_OPS_COMMON_SOFTMAX_H

#include <lockstep/op.h>
#include <lockstep/ops.h>

/** The number of the axis that the attribute names, of a value with `ndim` axes. */
static inline int lk__softmax_axis(const lk_call *c, int ndim)
{
    const lk_softmax_attr *a = c->attr;
    return a->axis == LK_LAST_AXIS ? ndim - 1 : a->axis;
}

/** Inputs of one shape and dtype, which the output has too, and an axis of it. */
lk_status lk__softmax_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** *out = x summed along the axis, which stays with size 1. */
lk_status lk__softmax_sum(const lk_call *c, lk_var x, lk_var *out) LK_NODISCARD;

/** *out = the gradient of x from dy, where y is its softmax along the last axis; in softmax.c. */
lk_status lk__softmax_grad(lk_var y, lk_var dy, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_SOFTMAX_H */
