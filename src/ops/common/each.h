/* Element-wise computation with broadcasting, for ops: loops on runs (kernel/each.h) whose operands
 * are the tensors of a call.
 */
#ifndef LK_OPS_COMMON_EACH_H
#define LK_OPS_COMMON_EACH_H

#include "kernel/each.h"
#include "ops/common/ops.h"

/* Flags of an op whose forward is lk__each_run(). */
enum { LK_EACH_FLAGS = LK_OP_STRIDED | LK_OP_ACCUMULATES | LK_OP_OVERWRITES };

/* Fields of the descriptor of an op of n inputs that its `data`, an lk__each, says all of. */
#define LK_EACH_OP(n) LK_ARITY(n, 1), .infer = lk__each_infer, .forward = lk__each_forward

/* What an element-wise op computes: the `data` of its descriptor. */
typedef struct lk__each {
    lk__loop loop; /* the output from the inputs, for lk__each_forward() */

    /* Of an op of one input, for the functions of unary.h: */
    lk__loop grad;                                              /* dx from dy, and x or y */
    lk_status (*bend)(const lk_call *c, lk_var dz, lk_var *dv); /* how that depends on x or y */
    const char *number;                                         /* the name of the attribute */
} lk__each;

/** A forward: lk__each_run() of the op's loop.  Attributes, if there are any, are one or two doubles,
 * the loop's numbers. */
lk_status lk__each_forward(lk_call *c) LK_NODISCARD;

/** y[0] = the loop of the inputs, which are broadcast to its shape; or y[0] + that, or 0 + that, as the
 * call says.  For ops with LK_EACH_FLAGS.  An op with two outputs, for a loop that has two, may be
 * LK_OP_STRIDED alone. */
lk_status lk__each_run(lk_call *c, lk__loop loop) LK_NODISCARD;

/** The same for a loop that has numbers. */
lk_status lk__each_run_with(lk_call *c, lk__loop loop, double p, double q) LK_NODISCARD;

/**
 * The infer of an element-wise op: all inputs have one real dtype, and the output has it and the
 * shape that all inputs can be broadcast to.  Errors: LK_EDTYPE, LK_ESHAPE naming both.
 */
lk_status lk__each_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** *out = g summed over the axes that input `i` was broadcast along: its gradient from one of the
 * output's shape.  g itself if there are none. */
lk_status lk__each_grad(const lk_call *c, int i, lk_var g, lk_var *out) LK_NODISCARD;

/** The same of the output of `op`, which has the shape of the call's output: straight into the leaf's
 * gradient where lk_apply_gradient() can. */
lk_status lk__each_grad_apply(const lk_call *c, int i, const lk_op *op, const lk_var *in, int n_in,
                              const void *attr, lk_var *out) LK_NODISCARD;

/* Samples of an op of two inputs: of one shape, and broadcast. */
extern const lk_op_sample lk__pair_samples[];

#endif /* LK_OPS_COMMON_EACH_H */
