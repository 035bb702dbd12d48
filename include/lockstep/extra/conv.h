/* Convolution in one to three dimensions under canonical arithmetic, channels last.
 *
 *   x  [batch][in...][in_channels]
 *   w  [kernel...][in_channels / groups][out_channels]
 *   y  [batch][out...][out_channels]
 *
 * Output position o and kernel tap t of an axis read input position
 * o * stride - pad_lo + t * dilation; taps that fall outside [0, in) are skipped, never multiplied by
 * zero.  Every output is one fused-multiply-add chain:
 *
 *   forward           from bias or +0; taps in raster order, then input channel ascending
 *   backward data     from bias or +0 or the old value; output positions in raster order, then
 *                     output channel ascending (the gather form)
 *   backward weights  from +0; samples, then output positions in raster order, within one piece;
 *                     pieces joined by the fixed pairwise tree of reduce.h
 *
 * That is the algorithm LK_CONV_DIRECT.  LK_CONV_WINOGRAD computes forward and backward data, of two
 * spatial axes, kernel 3x3, stride, dilation and groups 1, by F(4x4, 3x3); docs/reference/numerics.md has the
 * expressions.  Its bits are others, and depend on as little; padding enters as +0,
 * and the bias or the old value is added last.
 *
 * `out` is given, not derived, and `pad_lo` may be any number, so a tile of a larger image with its
 * halo is described by the same struct: that is why a spatial layout keeps the bits.  By Winograd's
 * algorithm it does so if it cuts at multiples of 4: the tiles of 4x4 outputs (backward data: of
 * dx) begin at a plan's position (0, 0).  lk_conv_out() gives the usual size.
 *
 * A transposed convolution is the backward-data pass of the convolution whose `y` is its input:
 * lk_conv_backward_data(plan, its input, w, its bias, ...) computes it, lk_conv_forward() is its
 * backward-data pass, and lk_conv_backward_weights(plan, its dy as x, its x as dy) its weight
 * gradient.
 */
#ifndef LK_CONV_H
#define LK_CONV_H

#include <lockstep/dtype.h>
#include <lockstep/extra/map.h>
#include <lockstep/window.h>

LK_BEGIN_DECLS

typedef struct lk_conv_shape {
    lk_dtype dtype;   /* LK_F32 or LK_F64 */
    lk_window window; /* what is padded behind the last position follows from out */
    int64_t batch;
    int64_t in_channels, out_channels;
    int64_t groups; /* divides both channel counts; 0 means 1 */
    int64_t in[LK_CONV_MAX_NDIM], out[LK_CONV_MAX_NDIM];
    /* Elements from one sample / one step along each spatial axis to the next, for windows into
     * larger tensors; 0 means dense.  Channels are always consecutive, and a step is at least what
     * lies within it, so positions never overlap. */
    int64_t x_sample, x_step[LK_CONV_MAX_NDIM];
    int64_t y_sample, y_step[LK_CONV_MAX_NDIM];
    int64_t piece;               /* samples per piece of the weight gradient; 0 means 1 */
    lk_conv_algorithm algorithm; /* of forward and backward data */
} lk_conv_shape;

/** A plan: everything about a shape that can be computed once, with its workspace.  Made by the caller who
 * convolves arrays, and by ops, whose tape keeps it; one thread at a time.  Not collective. */
typedef struct lk_conv_plan lk_conv_plan;

/**
 * Output positions along one axis with `pad_lo` before and `pad_hi` behind:
 * floor((in + pad_lo + pad_hi - dilation (kernel - 1) - 1) / stride) + 1, or 0 if none fits.
 *
 * Errors: LK_EINVAL for sizes below zero (kernel, stride, dilation: below one).
 */
LK_API lk_status lk_conv_out(int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                             int64_t pad_lo, int64_t pad_hi, int64_t *out) LK_NODISCARD;

/**
 * Make a plan.  The caller owns it; release it with lk_conv_plan_free().  One thread may use it at a
 * time.  Workspace is allocated by the first call of each pass and kept.
 *
 * Not collective.  Errors: LK_EDTYPE, LK_EINVAL, LK_ESHAPE (also for a shape that `algorithm` does
 * not compute), LK_EOVERFLOW, LK_ENOMEM.
 */
LK_API lk_status lk_conv_plan_new(const lk_conv_shape *shape, lk_conv_plan **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_conv_plan_free(lk_conv_plan *plan);

/**
 * y = act(x * w + bias).  `bias`: out_channels values or NULL.
 *
 * Not collective.  `y` must not share an element with `x`, `w` or `bias`; other channels of the
 * tensor that `x` is a window of are apart from it.
 *
 * Errors: LK_EINVAL (a NULL operand, an unknown activation), LK_EOVERLAP, LK_ENOMEM, LK_EFPENV.
 */
LK_API lk_status lk_conv_forward(lk_conv_plan *plan, const void *x, const void *w, const void *bias,
                                 lk_act act, void *y) LK_NODISCARD;

/**
 * dx = gather of dy through w; every position of dx is written.  `bias`: in_channels values or
 * NULL; not together with `accumulate`, which starts from dx's old value.
 *
 * Not collective.  `dx` must not share an element with `dy`, `w` or `bias`.
 *
 * Errors: LK_EINVAL (a NULL operand, a bias with `accumulate`), LK_EOVERLAP, LK_ENOMEM, LK_EFPENV.
 */
LK_API lk_status lk_conv_backward_data(lk_conv_plan *plan, const void *dy, const void *w,
                                       const void *bias, bool accumulate, void *dx) LK_NODISCARD;

/** dw = weight gradient, or dw = dw + weight gradient with `accumulate` (unchanged if batch is 0). */
LK_API lk_status lk_conv_backward_weights(lk_conv_plan *plan, const void *x, const void *dy,
                                          bool accumulate, void *dw) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_CONV_H */
