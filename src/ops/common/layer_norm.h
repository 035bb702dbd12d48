/* Layer norm by rows: what the op and those on tiles share.  src/ops/layer_norm.c has the formulas. */
#ifndef LK_OPS_COMMON_LAYER_NORM_H
#define LK_OPS_COMMON_LAYER_NORM_H

#include "ops/common/rows.h"

#include <lockstep/ops.h>

/* Maps of a row, of x, gamma and beta or dy.  Its numbers p are mean, inv, and in GRADIENT the means of g and
 * of g times the normalised x. */
typedef enum lk__norm_map {
    LK__NORM_SQUARE,       /* c c */
    LK__NORM_VALUES,       /* y */
    LK__NORM_WEIGH,        /* g */
    LK__NORM_WEIGH_NORMAL, /* g times the normalised x */
    LK__NORM_GRADIENT,     /* dx */
    LK__NORM_PRODUCT,      /* dy times the normalised x */
    LK__NORM_MAPS
} lk__norm_map;
extern lk__row_fn *const lk__layer_norm_map[LK__NORM_MAPS];

/** What is added to the variance. */
double lk__layer_norm_eps(const lk_layer_norm_attr *a);

/** Refuse an eps that is negative, or not finite in the dtype of input 0. */
lk_status lk__layer_norm_check(const lk_call *c, const lk_layer_norm_attr *a) LK_NODISCARD;

/** Output 0 = rows of n elements of input 0, x, normalised, by the n first elements of inputs 1 and 2,
 * gamma and beta. */
lk_status lk__layer_norm_values(lk_call *c, int64_t n, const lk_layer_norm_attr *a) LK_NODISCARD;

/** Outputs dx, and dy times the normalised x, of inputs x, gamma and dy. */
lk_status lk__layer_norm_gradients(lk_call *c, int64_t n, const lk_layer_norm_attr *a) LK_NODISCARD;

#endif /* LK_OPS_COMMON_LAYER_NORM_H */
