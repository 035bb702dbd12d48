/* Activations that an op applies to what it has computed, by an attribute: the bits of the op of that name
 * behind it, in one pass over memory. */
#ifndef LK_OPS_COMMON_ACT_H
#define LK_OPS_COMMON_ACT_H

#include <lockstep/act.h>
#include <lockstep/op.h>

/** Refuse an activation whose gradient is no function of its output, naming `op`.  Errors: LK_EINVAL. */
lk_status lk__act_check(const char *op, lk_act act) LK_NODISCARD;

/** *out = the gradient of what the activation was applied to, from that of its output y; g itself for none. */
lk_status lk__act_grad(lk_act act, lk_var g, lk_var y, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_ACT_H */
