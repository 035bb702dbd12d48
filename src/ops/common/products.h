/* What products of matrices, linear layers and convolutions share: rows, pieces and biases. */
#ifndef LK_OPS_COMMON_PRODUCTS_H
#define LK_OPS_COMMON_PRODUCTS_H

#include <lockstep/op.h>

/** Sizes of x [samples, ..., columns]: the first axis, and the rows in each index of it.
 * Errors: LK_EOVERFLOW. */
lk_status lk__rows_of(const lk_shape *x, int64_t *samples, int64_t *rows) LK_NODISCARD;

/** Samples in a piece of a sum over `samples` of them: lk_tape_shard_size(), at most all; 0 for all. */
int64_t lk__piece_of(const lk_tape *tape, int64_t samples);

/** Input `i` must be [channels], of the dtype of input 0.  Errors: LK_EDTYPE, LK_ESHAPE. */
lk_status lk__bias_check(const lk_call *c, int i, int64_t channels) LK_NODISCARD;

/** Its gradient, from that of what it is added to: the sum of dy over all axes but the last. */
lk_status lk__bias_gradient(const lk_call *c, int i, lk_var dy, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_PRODUCTS_H */
