/* Local contrast normalisation of dense images: what the op and the one on tiles share.  src/ops/lcn.c has
 * the formulas. */
#ifndef LK_OPS_COMMON_LCN_H
#define LK_OPS_COMMON_LCN_H

#include <lockstep/op.h>
#include <lockstep/ops.h>

typedef struct lk__lcn_shape {
    lk_dtype dtype;
    int64_t samples, rows, columns, channels;
    lk_lcn_attr attr;
} lk__lcn_shape;

/** y, as input 0, and s, its one channel.  Errors: LK_EDTYPE, LK_ESHAPE, LK_EINVAL. */
lk_status lk__lcn_infer(lk_call *c, const lk_lcn_attr *a, lk_output_spec *out) LK_NODISCARD;

/** y and the deviation s of images x. */
lk_status lk__lcn_values(lk_call *c, const lk__lcn_shape *of, const void *x, void *y,
                         void *s) LK_NODISCARD;

/* What dx is made of. */
typedef struct lk__lcn_grad {
    const void *y, *s, *dy, *ds;
} lk__lcn_grad;
lk_status lk__lcn_gradient(lk_call *c, const lk__lcn_shape *of, const lk__lcn_grad *in,
                           void *dx) LK_NODISCARD;

#endif /* LK_OPS_COMMON_LCN_H */
