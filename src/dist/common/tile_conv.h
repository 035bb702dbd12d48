/* What convolutions on tiles share: which boxes a kernel goes between, and what each tile says of the
 * gradients of weights and biases.
 *
 * A convolution relates two arrays, its x side and its y side; of a transposed one the y side is its
 * input.  Each kernel call has a box of either, which lies by steps in what the rank holds.
 */
#ifndef LK_DIST_COMMON_TILE_CONV_H
#define LK_DIST_COMMON_TILE_CONV_H

#include "dist/common/tiles.h"
#include "ops/common/windows/conv.h"

/* Attributes of all nodes of a convolution on tiles. */
typedef struct lk__tile_conv {
    lk__dist d;
    const lk_tile *tile;
    int64_t groups;
    lk_conv_algorithm algorithm;
    lk_act act;
    int64_t
        block; /* filters of a block, over which dx is summed by the tree; 0: one chain for all */
    bool fetches; /* of dw: it is the first to read dy's margin */
} lk__tile_conv;

/* One side of a kernel call: an array, the box that it is, and the part that the kernel sees. */
typedef struct lk__tile_side {
    const lk_tensor *array;
    const lk_box *box, *part;
    lk_range channels; /* of them, those that the kernel sees; n 0: all */
    void *data;        /* memory that stands for the array's; NULL: the array's */
} lk__tile_side;

/** Where the part begins. */
char *lk__tile_side_start(const lk__tile_side *side);

/** In forward: the plan of the convolution from a part of x to a part of y. */
lk_status lk__tile_conv_plan(lk_call *c, const lk__tile_side *x, const lk__tile_side *y,
                             lk_conv_plan **out) LK_NODISCARD;

/** In backward: the gradient of input `i`, the weights, [leaves][...], from input 0 and dy; of input `i`,
 * the bias, from dy.  Both add to a leaf's gradient in place where they may. */
lk_status lk__tile_conv_weights(lk_call *c, int i, const lk__tile_conv *a, lk_var dy,
                                lk_var *out) LK_NODISCARD;
lk_status lk__tile_conv_bias(lk_call *c, int i, const lk__tile_conv *a, lk_var dy,
                             lk_var *out) LK_NODISCARD;

/* Inputs of a convolution; b may be LK_NO_VAR. */
typedef struct lk__tile_conv_in {
    lk_var x, w, b;
} lk__tile_conv_in;

/** lk_dist_tile_conv() of some filters of a layer, under the name tile_feature_conv: dx is the tree over
 * blocks of `block` of them, and 0 without filters; attr->act is the activation. */
lk_status lk__tile_conv_filters(const lk_tile *tile, lk__tile_conv_in in, const lk_conv_attr *attr,
                                int64_t block, const char *name, lk_var *out) LK_NODISCARD;

#endif /* LK_DIST_COMMON_TILE_CONV_H */
