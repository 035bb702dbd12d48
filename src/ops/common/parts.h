/* Parts of tensors, copies and fills. */
#ifndef LK_OPS_COMMON_PARTS_H
#define LK_OPS_COMMON_PARTS_H

#include "tensor/tensor.h"

#include <lockstep/op.h>

/** The indices start, start + step, ... of one axis, `n` of them; to be used as a tensor while `t`
 * lives, not to be freed. */
lk_tensor lk__part(const lk_tensor *t, int axis, int64_t start, int64_t n, int64_t step);

/** dst = src, of one shape.  Errors: as lk_tensor_copy(). */
lk_status lk__copy(const lk_tensor *src, const lk_tensor *dst) LK_NODISCARD;

/** All elements of dst = value; a thread that rehearses leaves real ones.  Errors: as
 * lk_tensor_fill_f64(). */
lk_status lk__fill(const lk_tensor *dst, double value) LK_NODISCARD;

/** The typed call of concat and stack, whose attributes are an lk_concat_attr. */
lk_status lk__join_apply(const lk_op *op, const lk_var *x, int n, int axis,
                         lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_PARTS_H */
