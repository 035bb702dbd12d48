/* Untied (locally connected) convolution: a filter of its own for each output position.
 *
 *   x [batch, in..., in_channels], w [out..., kernel..., in_channels, out_channels],
 *   y [batch, out..., out_channels]
 *
 * As with convolution, each of three ops computes one of the three from the other two, and their
 * derivatives are each other.  Each is a set of small matrix products, one for each site:
 *
 *   op          site              rows x columns             sum
 *   y           output position   samples x out_channels     taps in raster order, input channels
 *   x           input position    samples x in_channels      output positions in raster order,
 *                                                            output channels
 *   w           output position   taps, input channels       samples, in pieces
 *                                 x out_channels
 *
 * Taps that fall into the padding are skipped, and their weights get gradient 0.  Sites are spread
 * over threads.
 *
 * The arrays may be boxes of the whole, as ranks hold them that share its positions: a site has the
 * products that it has in the whole, in their order, and so its bits.
 */
#ifndef LK_OPS_COMMON_UNTIED_H
#define LK_OPS_COMMON_UNTIED_H

#include <lockstep/op.h>
#include <lockstep/ops.h>

typedef enum lk__untied_result { LK_UNTIED_Y, LK_UNTIED_X, LK_UNTIED_W } lk__untied_result;

/** As lk__conv_begin(), and there are no groups.  Errors: also LK_EINVAL. */
lk_status lk__untied_begin(const lk_call *c, const lk_conv_attr *a, int *ndim) LK_NODISCARD;

/** The weights for x, y and kernel. */
lk_shape lk__untied_weights(const lk_shape *x, const lk_shape *y, const int64_t *kernel);

/** The gradient of the weights, input 1 of local_conv or its transpose, from its two other arrays. */
lk_status lk__untied_weights_gradient(const lk_call *c, lk_var x, lk_var y,
                                      lk_var *dw) LK_NODISCARD;

/** In forward: compute the tensor that `result` names, c->y[0], from the other two. */
lk_status lk__untied_run(lk_call *c, const lk_conv_attr *a, lk__untied_result result,
                         const lk_tensor *x, const lk_tensor *w, const lk_tensor *y) LK_NODISCARD;

/* Arrays of which each has a box of the positions. */
typedef struct lk__untied_boxes {
    lk_dtype dtype;
    lk_window window;
    int64_t batch, in_channels, out_channels;
    int64_t in[LK_CONV_MAX_NDIM], out[LK_CONV_MAX_NDIM]; /* positions of the whole */
    char *x, *w, *y;
    lk_box x_box, w_box, y_box;
    lk_box sites; /* that are computed: of x, or of y and w */
} lk__untied_boxes;

/** Compute the sites of the array that `result` names.  The other arrays must have all that these are
 * related to in the whole; what is around them in their own array stays.  There is a batch, and there
 * are channels. */
lk_status lk__untied_run_boxes(lk_call *c, lk__untied_result result,
                               const lk__untied_boxes *boxes) LK_NODISCARD;

#endif /* LK_OPS_COMMON_UNTIED_H */
