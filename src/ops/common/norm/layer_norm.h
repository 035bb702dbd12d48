/* Layer norm by rows: what the op and those on tiles share.  src/ops/layer_norm.c has the formulas. */
#ifndef LK_OPS_COMMON_LAYER_NORM_H
#define LK_OPS_COMMON_LAYER_NORM_H

#include <lockstep/op.h>
#include <lockstep/ops.h>

/** What is added to the variance. */
double lk__layer_norm_eps(const lk_layer_norm_attr *a);

/** Refuse an eps that is negative, or not finite in the dtype of input 0. */
lk_status lk__layer_norm_check(const lk_call *c, const lk_layer_norm_attr *a) LK_NODISCARD;

/** Outputs 1 and 2, mean and inv: a number for each row of output 0, whose last axes become 1. */
void lk__layer_norm_kept(int axes, lk_output_spec out[3]);

/** Output 0 = rows of n elements of input 0, x, normalised, by the n first elements of inputs 1 and 2,
 * gamma and beta; outputs 1 and 2 = mean and inv of the rows. */
lk_status lk__layer_norm_values(lk_call *c, int64_t n, const lk_layer_norm_attr *a) LK_NODISCARD;

/** Outputs dx, and dy times the normalised x, of inputs x, gamma, dy, mean and inv. */
lk_status lk__layer_norm_gradients(lk_call *c, int64_t n) LK_NODISCARD;

#endif /* LK_OPS_COMMON_LAYER_NORM_H */
