/* Windows: which input positions an output position of a convolution or a pool reads; and the algorithms
 * of convolutions.
 *
 * A window is a value of the caller, without sizes of tensors; ops, layers and the planning of tiles take
 * it.  Nothing here is collective, and every thread may call it.
 */
#ifndef LK_WINDOW_H
#define LK_WINDOW_H

#include <lockstep/pieces.h>

LK_BEGIN_DECLS

enum { LK_CONV_MAX_NDIM = 3 };

/**
 * Where windows lie: how output positions map to input positions, of a convolution, a pool or what else
 * goes over neighbours.  A value, without sizes of tensors; all 0 but `ndim` and `kernel` is the usual.
 */
typedef struct lk_window {
    int ndim;                           /* spatial axes, 1 to 3; entries beyond are ignored */
    int64_t kernel[LK_CONV_MAX_NDIM];   /* taps, at least 1 */
    int64_t stride[LK_CONV_MAX_NDIM];   /* 0 means 1 */
    int64_t dilation[LK_CONV_MAX_NDIM]; /* 0 means 1 */
    /* Positions before the first and behind the last; below 0: as many are cut off. */
    int64_t pad_lo[LK_CONV_MAX_NDIM], pad_hi[LK_CONV_MAX_NDIM];
    int64_t grid; /* outputs that are computed together: Winograd's are 4; 0 means 1 */
} lk_window;

/**
 * The input positions of an axis, of `in`, that the outputs `out` read: the smallest range that has
 * all of them, n 0 if there are none.  With a grid, groups of outputs begin at out.first, and the last
 * one is whole.  Numbers are such as a plan accepts.
 */
LK_API lk_range lk_window_needs(const lk_window *window, int axis, lk_range out, int64_t in);

/**
 * The output positions of an axis, of `out`, that read the inputs `in`: those whose gradients dx of `in`
 * takes.  As lk_window_needs(); with a grid, groups of inputs begin at in.first.
 */
LK_API lk_range lk_window_feeds(const lk_window *window, int axis, lk_range in, int64_t out);

/* How the forward and backward-data passes compute.  Each has its own bits, which depend on nothing
 * else; the weight gradient is the direct one either way. */
typedef enum lk_conv_algorithm {
    LK_CONV_DIRECT,   /* one chain per output, extra/conv.h has the order */
    LK_CONV_WINOGRAD, /* F(4x4, 3x3): fewer products, and an error that is some times larger */
    LK_N_CONV_ALGORITHMS
} lk_conv_algorithm;

LK_END_DECLS

#endif /* LK_WINDOW_H */
