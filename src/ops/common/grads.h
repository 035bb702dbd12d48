/* Ops that the backward of several element-wise ops applies. */
#ifndef LK_OPS_COMMON_GRADS_H
#define LK_OPS_COMMON_GRADS_H

#include <lockstep/op.h>

/** -(x * y), which broadcast. */
lk_status lk__neg_mul(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** The gradient of input `i` of the call: -(x * y), and summed as lk__each_grad() does. */
lk_status lk__neg_mul_grad(const lk_call *c, int i, lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** The gradient of input `i` of the call: g where a > b, elsewhere 0; with `otherwise` 0 where a > b,
 * elsewhere g.  All broadcast, and it is summed as lk__each_grad() does. */
lk_status lk__pick_grad(const lk_call *c, int i, lk_var g, lk_var a, lk_var b, bool otherwise,
                        lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_GRADS_H */
