/* Pooling in one to three dimensions under canonical arithmetic, channels last.
 *
 *   x [batch][in...][channels]  ->  y [batch][out...][channels]
 *
 * Window o covers input positions o * stride - pad_lo + t, t < kernel, of each axis; positions outside
 * [0, in) are skipped.  Taps are visited in raster order.
 *
 *   max   the first of the largest, with `relu` of x < 0 ? 0 : x; the first NaN wins over everything
 *   avg   the sum (one chain of additions from +0) divided by the number of valid taps, or by the
 *         window's size with `count_padding`
 *   l2    sqrt of the sum of squares (one fma chain from +0)
 *
 * A window without a valid tap gives -inf with index -1 (max) or 0 (avg, l2).
 *
 * Backward passes gather: each input position adds the windows that cover it, output positions in
 * raster order, in one chain from +0:
 *
 *   max   dy, of windows whose index is this position
 *   avg   dy divided by what the forward pass divided by
 *   l2    fma(dy, x / y, .), of windows whose y is not 0
 *
 * A tile of an image gives the same bits as the image.  Its `in` must be all positions that its
 * windows reach in the image, so that valid taps count the same, and backward its `out` all windows
 * over the positions wanted; `pad_lo` is what places the first window.  An index of max outside the
 * tile matches nothing.
 *
 * A tile need not be copied out of the array that it is a box of: the steps say how far its positions
 * lie apart there.
 */
#ifndef LK_POOL_H
#define LK_POOL_H

#include <lockstep/extra/conv.h>

LK_BEGIN_DECLS

typedef struct lk_pool_shape {
    lk_dtype dtype; /* LK_F32 or LK_F64 */
    lk_window
        window; /* without dilation; what is padded behind the last position follows from out */
    int64_t batch, channels;
    int64_t in[LK_CONV_MAX_NDIM], out[LK_CONV_MAX_NDIM]; /* lk_conv_out() gives the usual out */
    /* As in lk_conv_shape: elements from one sample / one step along each spatial axis to the next,
     * for boxes of larger tensors; 0 means dense.  Those of x are dx's as well; those of y are dy's
     * and index's.  No other element is read or written. */
    int64_t x_sample, x_step[LK_CONV_MAX_NDIM];
    int64_t y_sample, y_step[LK_CONV_MAX_NDIM];
    bool count_padding; /* avg: divide by the window's size */
    bool relu;          /* lk_pool_max(): of x < 0 ? 0 : x */
} lk_pool_shape;

/**
 * Forward passes.  `index` (max): for each output the position of its maximum in the sample,
 * counted in raster order over `in...`, whatever the steps, or -1; may be NULL.
 *
 * Not collective.  Outputs must not overlap anything, from the first to the last element of each
 * operand.  In f32 a window of max may span at most 2^31 - 1 positions of the sample.
 *
 * Errors: LK_EDTYPE, LK_EINVAL, LK_ESHAPE (a step is less than what lies within it), LK_EOVERFLOW,
 * LK_EOVERLAP, LK_EFPENV.
 */
LK_API lk_status lk_pool_max(const lk_pool_shape *s, const void *x, void *y,
                             int64_t *index) LK_NODISCARD;
LK_API lk_status lk_pool_avg(const lk_pool_shape *s, const void *x, void *y) LK_NODISCARD;
LK_API lk_status lk_pool_l2(const lk_pool_shape *s, const void *x, void *y) LK_NODISCARD;

/** Backward passes; every position of dx's box is written.  Otherwise as the forward passes. */
LK_API lk_status lk_pool_max_backward(const lk_pool_shape *s, const void *dy, const int64_t *index,
                                      void *dx) LK_NODISCARD;
LK_API lk_status lk_pool_avg_backward(const lk_pool_shape *s, const void *dy,
                                      void *dx) LK_NODISCARD;
LK_API lk_status lk_pool_l2_backward(const lk_pool_shape *s, const void *x, const void *y,
                                     const void *dy, void *dx) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_POOL_H */
