/* The family of convolution: conv, conv_transpose and conv_weights.
 *
 * One convolution relates x [batch, in..., in_channels], w [kernel..., in_channels / groups,
 * out_channels] and y [batch, out..., out_channels].  Each of the three ops computes one of them
 * from the other two, and so is linear in each; the derivatives of one are the other two.
 */
#ifndef LK_OPS_COMMON_CONV_H
#define LK_OPS_COMMON_CONV_H

#include <lockstep/extra/conv.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>

/** An attribute of which 0 stands for 1. */
static inline int64_t lk__or_one(int64_t n)
{
    return n == 0 ? 1 : n;
}

/** What all of them check first: input 0 is real, [batch, 1 to 3 spatial axes, channels], all inputs
 * have its dtype, the groups divide its channels, and there is no activation.  Errors: LK_EDTYPE, LK_ESHAPE,
 * LK_EINVAL. */
lk_status lk__conv_begin(const lk_call *c, const lk_conv_attr *a, int *ndim,
                         int64_t *groups) LK_NODISCARD;

/** Output positions along axis `d` of `in` positions.  Errors: LK_ESHAPE where the kernel does not
 * fit, LK_EINVAL for attributes. */
lk_status lk__conv_out_of(const lk_call *c, const lk_conv_attr *a, int d, int64_t in,
                          int64_t kernel, int64_t *out) LK_NODISCARD;

/** Input positions along axis `d`, which a convolution maps to `out` ones: the fewest, and
 * a->extra[d].  Errors: LK_EINVAL unless it does, LK_ESHAPE for none that would become some. */
lk_status lk__conv_in_of(const lk_call *c, const lk_conv_attr *a, int d, int64_t out,
                         int64_t kernel, int64_t *in) LK_NODISCARD;

/** Set a->extra so that lk__conv_in_of() gives the sizes of x from those of y and `kernel`. */
void lk__conv_extra(lk_conv_attr *a, int ndim, const int64_t *x, const int64_t *y,
                    const int64_t *kernel);

/** a->extra must be 0.  Errors: LK_EINVAL. */
lk_status lk__conv_no_extra(const lk_call *c, const lk_conv_attr *a, int ndim) LK_NODISCARD;

/** Input 1 must have the shape to which the convolution maps input 0.  Errors: LK_ESHAPE naming
 * both, and those of lk__conv_out_of(). */
lk_status lk__conv_related(const lk_call *c, const lk_conv_attr *a, int ndim) LK_NODISCARD;

/** In forward: the shape of the convolution between x and y, gaps cleared. */
void lk__conv_shape_of(const lk_call *c, const lk_conv_attr *a, const lk_tensor *x,
                       const lk_tensor *y, const int64_t *kernel, lk_conv_shape *s);

/** In forward: the plan of the convolution between x and y, kept by the tape. */
lk_status lk__conv_plan_of(lk_call *c, const lk_conv_attr *a, const lk_tensor *x,
                           const lk_tensor *y, const int64_t *kernel,
                           lk_conv_plan **out) LK_NODISCARD;

/** In forward: the plan of a shape, kept by the tape.  The shape is a key: gaps in it are 0. */
lk_status lk__conv_plan_kept(lk_call *c, const lk_conv_shape *s, lk_conv_plan **out) LK_NODISCARD;

/** The gradient of the weights, input 1 of conv or its transpose, from the two sides of the convolution. */
lk_status lk__conv_weights_gradient(const lk_call *c, lk_var x, lk_var y, lk_var *dw) LK_NODISCARD;

/** The typed call of conv_weights and local_conv_weights. */
lk_status lk__conv_weights_apply(const lk_op *op, lk_var x, lk_var dy, const lk_conv_attr *attr,
                                 const int64_t *kernel, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_CONV_H */
