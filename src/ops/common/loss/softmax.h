/* What softmax and log_softmax share: all but the formulas, which the `data` of an op has. */
#ifndef LK_OPS_COMMON_SOFTMAX_H
#define LK_OPS_COMMON_SOFTMAX_H

#include "kernel/sums.h"

#include <lockstep/extra/map.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>

/* The `data`: of the op its rows, and the op that gives dx of y and dy; of that how a sheet of rows of both
 * becomes rows of dx. */
typedef struct lk__softmax {
    lk_status (*rows)(lk_dtype dtype, const lk_rows *shape, const void *x, void *y);
    const lk_op *grad;
    void (*sheet)(lk__sheet *t);
} lk__softmax;

lk_status lk__softmax_forward(lk_call *c) LK_NODISCARD;
lk_status lk__softmax_backward(lk_call *c, const lk_var *dout, lk_var *din) LK_NODISCARD;
lk_status lk__softmax_grad_forward(lk_call *c) LK_NODISCARD;

extern const lk_op_sample lk__softmax_samples[];

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
