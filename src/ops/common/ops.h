/* What ops share: shapes of operands that are combined, and axes that are summed. */
#ifndef LK_OPS_COMMON_OPS_H
#define LK_OPS_COMMON_OPS_H

#include <lockstep/extra/reduce.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>

/* Fields of the descriptor of an op with so many inputs and outputs. */
#define LK_ARITY(in, out) .min_in = (in), .max_in = (in), .n_out = (out)

/** The descriptors of src/ops that others of them apply. */
extern const lk_op lk__op_broadcast, lk__op_sum_to, lk__op_linear_weights, lk__op_conv,
    lk__op_conv_weights, lk__op_local_conv_weights, lk__op_mul, lk__op_div, lk__op_neg;

/** *out = the shape that `a` and `b` broadcast to.  Errors: LK_ESHAPE naming `op` and both. */
lk_status lk__broadcast_shapes(const char *op, lk_shape a, lk_shape b, lk_shape *out) LK_NODISCARD;

/** Dtype and shape of input 0, for ops that keep them. */
lk_status lk__like_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** The same for ops that compute.  Errors: LK_EDTYPE unless f32 or f64. */
lk_status lk__same_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** a * b for sizes of axes, INT64_MAX if it is larger: an empty tensor may have such axes. */
int64_t lk__times(int64_t a, int64_t b);

/** Whether an attribute is finite when it is rounded to `dtype`, f32 or f64. */
bool lk__is_finite(lk_dtype dtype, double value);

/**
 * y = x, contiguous, reduced over the axes whose bits are set in `axes`; y has the others.
 *
 * Neighbouring axes are reduced as one.  Of several such groups the last comes first, and the one
 * with axis 0, the batch, is cut into pieces of lk_tape_shard_size() samples.
 */
lk_status lk__reduce_axes(lk_call *c, lk_reduce_axis_op op, const lk_tensor *x, unsigned axes,
                          void *y) LK_NODISCARD;

#endif /* LK_OPS_COMMON_OPS_H */
