/* Ops of one input, element by element, y = f(x): their functions, for descriptors whose `data` is an
 * lk__each that says which loops compute f and its gradient.
 *
 *   dx = grad(dy, v), linear in dy, where v is x if the op saves it, and y otherwise
 *   of that: d(dy) = grad(dz, v), dv = bend(dz, dy, v); without a bend the slope of f is constant but for kinks
 *
 * Attributes are the numbers of both loops.
 */
#ifndef LK_OPS_COMMON_UNARY_H
#define LK_OPS_COMMON_UNARY_H

#include "ops/common/each.h"

/* The attributes of grad: those of the op that it is of, with its `data`. */
typedef struct lk__unary_grad_attr {
    const lk__each *of;
    double p[LK_LOOP_MAX_P];
} lk__unary_grad_attr;

/** As lk__each_infer(), for an op with one attribute, a double with the name lk__each.number.  Errors:
 * LK_EINVAL unless that is finite when it is rounded to x's dtype. */
lk_status lk__unary_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** dx as above.  `bend` gets the call of grad: its inputs are dy and v, its output is dx. */
lk_status lk__unary_backward(lk_call *c, const lk_var *dout, lk_var *din) LK_NODISCARD;

/** *out = grad(g, v) of an op with this `data`, and numbers p; NULL: it has none. */
lk_status lk__unary_grad(const lk__each *of, const double *p, lk_var g, lk_var v,
                         lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_UNARY_H */
