/* What mean_squared_error and sum_squared_error share: losses w (x - t)^2 by element. */
#ifndef LK_OPS_COMMON_SQUARED_H
#define LK_OPS_COMMON_SQUARED_H

#include <lockstep/op.h>
#include <lockstep/ops.h>

/* The `data` of such an op: w, and the reduction that LK_LOSS_DEFAULT is. */
typedef struct lk__squared {
    double w;
    lk_loss_reduction otherwise;
} lk__squared;

lk_status lk__squared_forward(lk_call *c) LK_NODISCARD;
lk_status lk__squared_backward(lk_call *c, const lk_var *dout, lk_var *din) LK_NODISCARD;

/* Samples of all reductions. */
extern const lk_op_sample lk__squared_samples[];

#endif /* LK_OPS_COMMON_SQUARED_H */
