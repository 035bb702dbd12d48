/* What batch_norm and batch_norm_inference share. */
#ifndef LK_OPS_COMMON_BATCH_NORM_H
#define LK_OPS_COMMON_BATCH_NORM_H

#include "ops/common/norm/pieces.h"

#include <lockstep/op.h>
#include <lockstep/ops.h>

static inline double lk__batch_norm_eps(const lk_call *c)
{
    double eps = ((const lk_batch_norm_attr *)c->attr)->eps;
    return eps == 0 ? 1e-5 : eps;
}

static inline lk_act lk__batch_norm_act(const lk_call *c)
{
    return ((const lk_batch_norm_attr *)c->attr)->act;
}

/** x has channels, and all other inputs one number for each; the first output is as x. */
lk_status lk__batch_norm_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;

/** *out = 1 / sqrt(variance + eps). */
lk_status lk__batch_norm_inverse(const lk_call *c, lk_var variance, lk_var *out) LK_NODISCARD;

/* ---- by its own statistics: values and gradients, each in few passes over memory ---- */

/* Inputs of a call that normalises, whose outputs are y, mean and variance. */
enum { LK__NORM_X, LK__NORM_GAMMA, LK__NORM_BETA };

/* Inputs of the call that gives dx, dgamma and dbeta. */
enum { LK__NORM_GRAD_IN = 8 };

/** Normalise x by the statistics of each piece. */
lk_status lk__batch_norm_values(lk_call *c, const lk__pieces *s) LK_NODISCARD;

/** In backward of such a call: the inputs of the call that gives the gradients.  Behind relu that call takes
 * dy as it is, and computes again where y is above 0; otherwise it gets the gradient before the activation. */
lk_status lk__batch_norm_grad_in(const lk_call *c, const lk_var *dout,
                                 lk_var in[LK__NORM_GRAD_IN]) LK_NODISCARD;
lk_status lk__batch_norm_grad_infer(lk_call *c, lk_output_spec *out) LK_NODISCARD;
lk_status lk__batch_norm_gradients(lk_call *c, const lk__pieces *s) LK_NODISCARD;

/* ---- running statistics ---- */

/** state = state + rate * (sum / pieces - state), each step rounded: `sum` is of the statistics of `pieces`
 * pieces.  Errors: LK_EINVAL for a state that is read-only. */
lk_status lk__running_stat_move(lk_tensor *state, const lk_tensor *sum, double rate,
                                double pieces) LK_NODISCARD;

#endif /* LK_OPS_COMMON_BATCH_NORM_H */
