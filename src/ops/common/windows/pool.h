/* What the pooling ops share: sizes, and ops from the output's shape back to the input's. */
#ifndef LK_OPS_COMMON_POOL_H
#define LK_OPS_COMMON_POOL_H

#include <lockstep/extra/pool.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>

/** Attributes of an op whose output has the shape of the pooled value. */
typedef struct lk__pool_back {
    lk_pool_attr pool;
    lk_shape x;
} lk__pool_back;

/* Flags of one whose elements are chains of additions from +0: such a sum is never -0, so 0 + it is it. */
enum { LK__POOL_BACK_FLAGS = LK_OP_OVERWRITES };

/** The infer of pooling: x [batch, in..., channels] becomes [batch, out..., channels].  Errors:
 * LK_EDTYPE, LK_ESHAPE (axes, a window that does not fit), LK_EINVAL. */
lk_status lk__pool_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** The infer of an op with lk__pool_back: the shape it names, and the dtype of input 0. */
lk_status lk__pool_back_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** The pooling between x and y. */
lk_pool_shape lk__pool_shape_of(const lk_pool_attr *a, const lk_tensor *x, const lk_tensor *y);

#endif /* LK_OPS_COMMON_POOL_H */
