/* What batch_norm and batch_norm_inference share. */
#ifndef LK_OPS_COMMON_BATCH_NORM_H
#define LK_OPS_COMMON_BATCH_NORM_H

#include "ops/common/rows.h"

#include <lockstep/op.h>
#include <lockstep/ops.h>

static inline double lk__batch_norm_eps(const lk_call *c)
{
    double eps = ((const lk_batch_norm_attr *)c->attr)->eps;
    return eps == 0 ? 1e-5 : eps;
}

/** x has channels, and all other inputs one number for each; the first output is as x. */
lk_status lk__batch_norm_infer(lk_call *c, lk_spec *out) LK_NODISCARD;

/** y = 1 / sqrt(x[0] + eps) for a vector; eps is the row's number p[1]. */
void lk__batch_norm_inverse_row(lk__row *r);

/** *out = 1 / sqrt(variance + eps). */
lk_status lk__batch_norm_inverse(const lk_call *c, lk_var variance, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_BATCH_NORM_H */
