/* One element of each group, moved out of it or into zeros; a pair of adjoint ops. */
#ifndef LK_OPS_COMMON_PICK_H
#define LK_OPS_COMMON_PICK_H

#include <lockstep/ops.h>

/** Element at[k] of group k of *out is element k of x, all others are 0; *out has `shape`, and `at`,
 * i64, has x's. */
lk_status lk__group_place(lk_var x, lk_var at, const lk_axes *axes, lk_shape shape,
                          lk_var *out) LK_NODISCARD;

/** Element k of *out is element at[k] of group k of x; *out has the shape of `at`. */
lk_status lk__group_pick(lk_var x, lk_var at, const lk_axes *axes, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_PICK_H */
