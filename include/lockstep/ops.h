/* Typed calls of the built-in ops.
 *
 * Each computes `*out` from values on a tape and records itself there; the tape is that of the first
 * argument, and all must be of one.  Values are f32 or f64, the same in one call, unless it says
 * otherwise.  `*out` belongs to the tape (see autograd.h).  None is collective.
 *
 * Element-wise ops broadcast: axes are matched from the last one backwards, and one of size 1, or
 * one that is not there, is repeated.
 *
 * Sums over the first axis, the batch, are cut into pieces of lk_tape_shard_size() samples.
 *
 * Errors of all: LK_ESHAPE and LK_EDTYPE naming both operands, LK_EINVAL for an attribute out of
 * range and for LK_NO_VAR, LK_ESTATE for a value that is gone, LK_ENOMEM, LK_EFPENV.  `*out` is
 * then LK_NO_VAR.
 *
 * The same ops by name: lk_op_find() and lk_apply(), with the structs here as attributes.
 */
#ifndef LK_OPS_H
#define LK_OPS_H

#include <lockstep/act.h>
#include <lockstep/autograd.h>
#include <lockstep/rng.h>
#include <lockstep/window.h>

LK_BEGIN_DECLS

/* ---- arithmetic and functions, element by element ---- */

/** x + y. */
LK_API lk_status lk_add(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** Attributes of lk_add_act(). */
typedef struct lk_add_act_attr {
    lk_act act;
} lk_add_act_attr;

/** None, relu, sigmoid or tanh of x + y: the bits of lk_add() and that, in one pass over memory. */
LK_API lk_status lk_add_act(lk_var x, lk_var y, lk_act act, lk_var *out) LK_NODISCARD;

/** x - y. */
LK_API lk_status lk_sub(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** x * y. */
LK_API lk_status lk_mul(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** x / y. */
LK_API lk_status lk_div(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** -x. */
LK_API lk_status lk_neg(lk_var x, lk_var *out) LK_NODISCARD;

typedef struct lk_affine_attr {
    double scale, shift; /* rounded to x's type; finite */
} lk_affine_attr;

/** scale * x + shift, in two roundings. */
LK_API lk_status lk_affine(lk_var x, double scale, double shift, lk_var *out) LK_NODISCARD;

/**
 * x^y, as pow() of the C standard.
 *
 * The gradients are y x^(y-1) and x^y log x: for x > 0 all of it, for x = 0 where the result is
 * finite (0 for y = 0), for x < 0 only that of x, and NaN for y.  See lk_pow_scalar() for an
 * exponent that is a constant.
 */
LK_API lk_status lk_pow(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

typedef struct lk_pow_scalar_attr {
    double exponent; /* finite */
} lk_pow_scalar_attr;

/**
 * x^exponent; for negative x too if the exponent is an integer, otherwise NaN there.
 *
 * Exponents 1, 2 and -1 are x, x * x and 1 / x.  With exponent 0 the gradient is 0 everywhere.
 */
LK_API lk_status lk_pow_scalar(lk_var x, double exponent, lk_var *out) LK_NODISCARD;

/** |x|.  The gradient at 0 is 0. */
LK_API lk_status lk_abs(lk_var x, lk_var *out) LK_NODISCARD;

/** x * x. */
LK_API lk_status lk_square(lk_var x, lk_var *out) LK_NODISCARD;

/** The square root of x, correctly rounded. */
LK_API lk_status lk_sqrt(lk_var x, lk_var *out) LK_NODISCARD;

/** e^x, the natural logarithm, sine, cosine and the error function; those of map.h. */
LK_API lk_status lk_exp(lk_var x, lk_var *out) LK_NODISCARD;
LK_API lk_status lk_log(lk_var x, lk_var *out) LK_NODISCARD;
LK_API lk_status lk_sin(lk_var x, lk_var *out) LK_NODISCARD;
LK_API lk_status lk_cos(lk_var x, lk_var *out) LK_NODISCARD;
LK_API lk_status lk_erf(lk_var x, lk_var *out) LK_NODISCARD;

/** The hyperbolic tangent. */
LK_API lk_status lk_tanh(lk_var x, lk_var *out) LK_NODISCARD;

/** 1 / (1 + e^-x). */
LK_API lk_status lk_sigmoid(lk_var x, lk_var *out) LK_NODISCARD;

/** x < 0 ? 0 : x.  The gradient at 0 is 0. */
LK_API lk_status lk_relu(lk_var x, lk_var *out) LK_NODISCARD;

typedef struct lk_leaky_relu_attr {
    double slope; /* for x < 0; finite */
} lk_leaky_relu_attr;

/** x < 0 ? slope * x : x.  The gradient at 0 is the slope. */
LK_API lk_status lk_leaky_relu(lk_var x, double slope, lk_var *out) LK_NODISCARD;

typedef struct lk_elu_attr {
    double alpha; /* minus the limit for x to -infinity; finite */
} lk_elu_attr;

/** x < 0 ? alpha * (e^x - 1) : x.  The gradient at 0 is alpha. */
LK_API lk_status lk_elu(lk_var x, double alpha, lk_var *out) LK_NODISCARD;

/** x/2 (1 + erf(x / sqrt 2)). */
LK_API lk_status lk_gelu(lk_var x, lk_var *out) LK_NODISCARD;

/** log(1 + e^x), stable for large |x|. */
LK_API lk_status lk_softplus(lk_var x, lk_var *out) LK_NODISCARD;

typedef struct lk_clip_attr {
    double lo, hi; /* rounded to x's type; lo <= hi; infinite: no limit */
} lk_clip_attr;

/** x, but at least lo and at most hi; NaN stays.  The gradient passes where lo <= x <= hi. */
LK_API lk_status lk_clip(lk_var x, double lo, double hi, lk_var *out) LK_NODISCARD;

/** The larger of x and y; NaN if one is NaN.  Where they are equal the gradient goes to x. */
LK_API lk_status lk_maximum(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** The smaller of x and y; NaN if one is NaN.  Where they are equal the gradient goes to x. */
LK_API lk_status lk_minimum(lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/**
 * x where the condition is not 0, elsewhere y; all three broadcast.
 *
 * The condition has any dtype, -0 counts as 0 and NaN does not.  It gets no gradient, and none
 * flows into the element that was not selected.
 */
LK_API lk_status lk_where(lk_var condition, lk_var x, lk_var y, lk_var *out) LK_NODISCARD;

/** x as a constant: no gradient flows back.  A view, any dtype. */
LK_API lk_status lk_stop_gradient(lk_var x, lk_var *out) LK_NODISCARD;

/* ---- shapes and elements ---- */

/** x with axes of size 1 repeated and axes added in front to become `shape`; a view, any dtype. */
LK_API lk_status lk_broadcast(lk_var x, lk_shape shape, lk_var *out) LK_NODISCARD;

/** The same elements in row-major order under another shape of as many, any dtype; a view where the
 * strides allow it (always if x is contiguous), otherwise a copy.  Errors: LK_ESHAPE. */
LK_API lk_status lk_reshape(lk_var x, lk_shape shape, lk_var *out) LK_NODISCARD;

/** Two axes of x exchanged; a view, any dtype. */
LK_API lk_status lk_transpose(lk_var x, int axis_a, int axis_b, lk_var *out) LK_NODISCARD;

/** Attributes of "transpose": axis i of the output is axis `axes[i]` of x, each of which comes
 * once; entries beyond x's axes are ignored. */
typedef struct lk_transpose_attr {
    int axes[LK_MAX_NDIM];
} lk_transpose_attr;

/** Axis i of the output is axis `axes[i]` of x, for all its axes; a view, any dtype. */
LK_API lk_status lk_permute(lk_var x, const int *axes, lk_var *out) LK_NODISCARD;

/** Attributes of "slice": the indices start, start + step, ... below stop of one axis. */
typedef struct lk_slice_attr {
    int axis;
    int64_t start, stop; /* 0 <= start <= stop <= the size of the axis */
    int64_t step;        /* 0: 1 */
} lk_slice_attr;

/** The indices start, start + step, ... below stop of one axis of x; a view, any dtype. */
LK_API lk_status lk_slice(lk_var x, int axis, int64_t start, int64_t stop, int64_t step,
                          lk_var *out) LK_NODISCARD;

/** Attributes of "concat" and "stack". */
typedef struct lk_concat_attr {
    int axis;
} lk_concat_attr;

/** n >= 1 values of one dtype, any, one after the other along an axis; other axes are equal. */
LK_API lk_status lk_concat(const lk_var *x, int n, int axis, lk_var *out) LK_NODISCARD;

/** n >= 1 values of one dtype, any, and one shape, one after the other along a new axis; 0 <= axis
 * <= their number of axes. */
LK_API lk_status lk_stack(const lk_var *x, int n, int axis, lk_var *out) LK_NODISCARD;

/** Attributes of "pad": elements to put around x, none of them negative; entries beyond x's axes
 * are ignored. */
typedef struct lk_pad_attr {
    int64_t before[LK_MAX_NDIM], after[LK_MAX_NDIM];
    double value; /* of these elements; x's dtype must be able to hold it */
} lk_pad_attr;

/** x with elements of one value around it, any dtype: pad->before[i] and pad->after[i] more indices
 * at the two ends of axis i. */
LK_API lk_status lk_pad(lk_var x, const lk_pad_attr *pad, lk_var *out) LK_NODISCARD;

/** A contiguous copy of x, any dtype. */
LK_API lk_status lk_copy(lk_var x, lk_var *out) LK_NODISCARD;

/** x itself if its elements lie in row-major order without gaps; otherwise as lk_copy(). */
LK_API lk_status lk_contiguous(lk_var x, lk_var *out) LK_NODISCARD;

/** Attributes of "cast". */
typedef struct lk_cast_attr {
    lk_dtype to;
} lk_cast_attr;

/**
 * x converted to another dtype by the rule of tensor.h; x itself if it has that one.
 *
 * Gradients flow between f32 and f64 alone: they are cast back.  Errors: LK_EINVAL for a value that
 * an integer dtype cannot hold, naming its index; LK_EDTYPE.
 */
LK_API lk_status lk_cast(lk_var x, lk_dtype to, lk_var *out) LK_NODISCARD;

/** Attributes of "gather_index" and "scatter_index". */
typedef struct lk_index_attr {
    int axis;
    int64_t size; /* of the axis of the output; "scatter_index" alone */
} lk_index_attr;

/**
 * Index i of the axis of `*out` is index index[i] of that of x, any dtype.
 *
 * `index` is a vector of i64 or i32 without a gradient; an index may come more than once.  The
 * gradient is lk_scatter_index().  Errors: LK_EINVAL for an index that x does not have, naming it
 * and its position.
 */
LK_API lk_status lk_gather_index(lk_var x, int axis, lk_var index, lk_var *out) LK_NODISCARD;

/**
 * Zeros with an axis of `size`, to whose index index[i] index i of the axis of x is added.
 *
 * What comes to one place is added in the order of i: ((0 + x[i1]) + x[i2])..., one chain that is
 * not cut into pieces.  `index` and errors as lk_gather_index().
 */
LK_API lk_status lk_scatter_index(lk_var x, int axis, lk_var index, int64_t size,
                                  lk_var *out) LK_NODISCARD;

/* ---- reductions over axes ---- */

/** The axes that are reduced, the attributes of these ops.  NULL and {0} mean all axes. */
enum { LK_LAST_AXIS = -1 };

typedef struct lk_axes {
    int n;                 /* 0: all */
    int axis[LK_MAX_NDIM]; /* from 0, or LK_LAST_AXIS */
    bool keep;             /* leave reduced axes with size 1; otherwise they disappear */
} lk_axes;

/* LK_AXES(0, 2) and LK_AXES_KEEP(0, 2) are pointers for the calls below.  In C++ what they point to
 * lives until the call is over. */
#ifdef __cplusplus
#    define LK__AXES(keep, ...) \
        (&static_cast<const lk_axes &>(lk_axes{LK__N_ARGS(__VA_ARGS__), {__VA_ARGS__}, keep}))
#else
#    define LK__AXES(keep, ...) \
        (&(const lk_axes){sizeof((const int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}, keep})
#endif
#define LK_AXES(...) LK__AXES(false, __VA_ARGS__)
#define LK_AXES_KEEP(...) LK__AXES(true, __VA_ARGS__)

/** The sum over axes; 0 of nothing. */
LK_API lk_status lk_sum(lk_var x, const lk_axes *axes, lk_var *out) LK_NODISCARD;

/** The sum divided by the number of elements; NaN of nothing. */
LK_API lk_status lk_mean(lk_var x, const lk_axes *axes, lk_var *out) LK_NODISCARD;

/** The largest element; NaN if one is NaN, -inf of nothing.  The gradient goes to the first of
 * equal ones in row-major order, or to the first NaN. */
LK_API lk_status lk_max(lk_var x, const lk_axes *axes, lk_var *out) LK_NODISCARD;

/** The smallest element; NaN if one is NaN, inf of nothing.  Gradient as lk_max(). */
LK_API lk_status lk_min(lk_var x, const lk_axes *axes, lk_var *out) LK_NODISCARD;

/** The product; 1 of nothing.  Gradients are right with zeros among the factors. */
LK_API lk_status lk_prod(lk_var x, const lk_axes *axes, lk_var *out) LK_NODISCARD;

/** The square root of the sum of squares, not scaled, so squares that overflow make it infinite;
 * 0 of nothing.  The gradient at 0 is 0. */
LK_API lk_status lk_norm(lk_var x, const lk_axes *axes, lk_var *out) LK_NODISCARD;

/** Where lk_max() is found first, or the first NaN: the position among the reduced elements, counted
 * in row-major order; for one axis its index.  i64, no gradient.  Errors: LK_ESHAPE of nothing. */
LK_API lk_status lk_argmax(lk_var x, const lk_axes *axes, lk_var *out) LK_NODISCARD;

/** x summed over the axes along which `shape` is broadcast to x's shape; x itself if none. */
LK_API lk_status lk_sum_to(lk_var x, lk_shape shape, lk_var *out) LK_NODISCARD;

/* ---- products of matrices, convolution and pooling ---- */

/** Attributes of lk_matmul(). */
typedef struct lk_matmul_attr {
    bool trans_a, trans_b; /* take this operand with its last two axes exchanged, without a copy */
} lk_matmul_attr;

/**
 * The products of the matrices in the last two axes: a [..., m, k] and b [..., k, n] give
 * [..., m, n].
 *
 * Leading axes broadcast.  Both need at least two axes.  Each element is one chain over k
 * ascending, see gemm.h.
 */
LK_API lk_status lk_matmul(lk_var a, lk_var b, lk_var *out) LK_NODISCARD;

/**
 * As lk_matmul(), with a stored as [..., k, m] if `trans_a`, b as [..., n, k] if `trans_b`.
 *
 * With two axes each, a transposed and b not, the sum over k is one over the first axis of both, the
 * batch, and is cut into pieces.
 */
LK_API lk_status lk_matmul_trans(lk_var a, lk_var b, bool trans_a, bool trans_b,
                                 lk_var *out) LK_NODISCARD;

/**
 * x w + b: x [batch, ..., in], w [in, out] and b [out] give [batch, ..., out].
 *
 * `b` may be LK_NO_VAR.  Each element is one chain from b, or +0, over `in` ascending.
 */
LK_API lk_status lk_linear(lk_var x, lk_var w, lk_var b, lk_var *out) LK_NODISCARD;

/** Attributes of lk_linear(). */
typedef struct lk_linear_attr {
    lk_act act;
} lk_linear_attr;

/** An activation of lk_linear(): the same bits in one pass over memory.  Errors: also LK_EINVAL for another
 * than none, relu, sigmoid and tanh. */
LK_API lk_status lk_linear_act(lk_var x, lk_var w, lk_var b, lk_act act, lk_var *out) LK_NODISCARD;

/** lk_linear_act() with relu. */
LK_API lk_status lk_linear_relu(lk_var x, lk_var w, lk_var b, lk_var *out) LK_NODISCARD;

/**
 * The gradient of lk_linear() with respect to w: x [batch, ..., in] and dy [batch, ..., out] give
 * [in, out], the sum of x' dy over all rows, in pieces of samples.
 */
LK_API lk_status lk_linear_weights(lk_var x, lk_var dy, lk_var *out) LK_NODISCARD;

/** x + b along the last axis: x [..., channels], b [channels]. */
LK_API lk_status lk_bias(lk_var x, lk_var b, lk_var *out) LK_NODISCARD;

/** Attributes of convolutions.  Entries are those of the spatial axes; all 0 is the usual. */
typedef struct lk_conv_attr {
    lk_window window; /* its axes and kernel are those of the operands, whatever it says */
    int64_t groups;   /* of channels, divides those of x and y; 0 means 1 */
    int64_t extra[3]; /* lk_conv_transpose(): positions beyond the fewest; otherwise 0 */
    lk_conv_algorithm algorithm; /* of all passes that have it; see conv.h for what it computes */
    lk_act
        act; /* lk_conv(): none, relu, sigmoid or tanh of the result, in one pass; otherwise none */
} lk_conv_attr;

/**
 * Convolution (correlation) in one to three dimensions, channels last: x [batch, in...,
 * in_channels], w [kernel..., in_channels / groups, out_channels] and b [out_channels] give
 * [batch, out..., out_channels].
 *
 * out = floor((in + pad_lo + pad_hi - dilation (kernel - 1) - 1) / stride) + 1.  Taps that fall into
 * the padding are skipped; each element is one chain from b, or +0, in the order of conv.h.  `b` may
 * be LK_NO_VAR, `attr` NULL.  Gradients of w are sums over samples, in pieces of lk_tape_shard_size()
 * samples, one piece if that is 0; each piece is one chain.
 *
 * Errors: also LK_ESHAPE if the kernel does not fit.
 */
LK_API lk_status lk_conv(lk_var x, lk_var w, lk_var b, const lk_conv_attr *attr,
                         lk_var *out) LK_NODISCARD;

/** lk_conv() with the activation relu, whatever `attr` says of it. */
LK_API lk_status lk_conv_relu(lk_var x, lk_var w, lk_var b, const lk_conv_attr *attr,
                              lk_var *out) LK_NODISCARD;

/**
 * The transpose of a convolution: x [batch, out..., out_channels], w [kernel...,
 * in_channels / groups, out_channels] and b [in_channels] give [batch, in..., in_channels].  All
 * names are those of the convolution that lk_conv() with `attr` would be, from the result's shape to
 * x's.
 *
 * in = (out - 1) stride + dilation (kernel - 1) + 1 - pad_lo - pad_hi + extra, where `extra` chooses
 * among the sizes that the convolution maps to `out`: from 0 below stride.  Each element is one
 * chain from b, or +0, in the order of conv.h.  `b` may be LK_NO_VAR, `attr` NULL.
 */
LK_API lk_status lk_conv_transpose(lk_var x, lk_var w, lk_var b, const lk_conv_attr *attr,
                                   lk_var *out) LK_NODISCARD;

/**
 * The gradient of lk_conv() with respect to w: x [batch, in..., in_channels] and dy [batch, out...,
 * out_channels] give [kernel..., in_channels / groups, out_channels].
 *
 * `kernel` has one entry for each spatial axis; `attr` may be NULL.  By name, attr.window.kernel says it.
 */
LK_API lk_status lk_conv_weights(lk_var x, lk_var dy, const lk_conv_attr *attr,
                                 const int64_t *kernel, lk_var *out) LK_NODISCARD;

/**
 * Untied convolution, local filtering: every output position has a filter of its own.  x [batch,
 * in..., in_channels] and w [out..., kernel..., in_channels, out_channels] give [batch, out...,
 * out_channels].
 *
 * Otherwise as lk_conv(), without groups; lk_add() a bias [out..., out_channels].  Weights whose
 * taps fall into the padding are not used, and their gradient is 0.
 */
LK_API lk_status lk_local_conv(lk_var x, lk_var w, const lk_conv_attr *attr,
                               lk_var *out) LK_NODISCARD;

/**
 * The transpose of lk_local_conv(), local defiltering: x [batch, out..., out_channels] and w
 * [out..., kernel..., in_channels, out_channels] give [batch, in..., in_channels].  Sizes as with
 * lk_conv_transpose().
 */
LK_API lk_status lk_local_conv_transpose(lk_var x, lk_var w, const lk_conv_attr *attr,
                                         lk_var *out) LK_NODISCARD;

/** The gradient of lk_local_conv() with respect to w.  As lk_conv_weights(), with its attributes. */
LK_API lk_status lk_local_conv_weights(lk_var x, lk_var dy, const lk_conv_attr *attr,
                                       const int64_t *kernel, lk_var *out) LK_NODISCARD;

/** Attributes of pooling.  Entries are those of the spatial axes. */
typedef struct lk_pool_attr {
    lk_window window;   /* without dilation; of as many axes as x has */
    bool count_padding; /* lk_avg_pool(): divide by the window's size, not by its valid positions */
    bool relu; /* lk_max_pool(): of lk_relu() of x, the same bits in fewer passes over memory */
} lk_pool_attr;

/**
 * The largest of each window: x [batch, in..., channels] gives [batch, out..., channels], in one to
 * three dimensions.
 *
 * out = floor((in + pad_lo + pad_hi - kernel) / stride) + 1.  Padding is skipped.  Of equal values
 * the first is taken, and so is the first NaN before all; a window of padding alone gives -inf.
 * `*index`, i64 of the same shape, is the position of each in its sample, counted in raster order
 * over `in...`, -1 for none; `index` may be NULL.  The gradient goes to that position.
 *
 * Errors: also LK_ESHAPE if a window does not fit.
 */
LK_API lk_status lk_max_pool(lk_var x, const lk_pool_attr *attr, lk_var *out,
                             lk_var *index) LK_NODISCARD;

/** lk_max_pool() with attr->relu. */
LK_API lk_status lk_relu_max_pool(lk_var x, const lk_pool_attr *attr, lk_var *out) LK_NODISCARD;

/** The mean of each window; 0 for one of padding alone.  Otherwise as lk_max_pool(). */
LK_API lk_status lk_avg_pool(lk_var x, const lk_pool_attr *attr, lk_var *out) LK_NODISCARD;

/**
 * The Euclidean norm of each window, sqrt of the sum of squares.  The gradient of a window of zeros,
 * which has none, is 0.  Otherwise as lk_max_pool().
 */
LK_API lk_status lk_l2_pool(lk_var x, const lk_pool_attr *attr, lk_var *out) LK_NODISCARD;

/* ---- recurrent layers ---- */

typedef struct lk_recurrent_attr {
    bool reverse;  /* begin with the last time */
    double forget; /* lstm: added to the gate f */
} lk_recurrent_attr;

/**
 * Recurrent cells at all times: x [samples, times, gates units] is what the input says, as lk_linear() gives
 * it, u [units, gates units] the recurrent weights, h and c [samples, units] the state before the first time.
 * *y is h of all times, [samples, times, units]; *last, or last[0] and last[1], h and c behind the last one,
 * the given ones if there are no times.  With s = h u:
 *
 *     rnn     h = tanh(x + s)
 *     gru     gates r, z, n: h = n + z (h - n), r = sigmoid(x + s), z = sigmoid(x + s),
 *             n = tanh(x + r (s + bias)), bias [units]
 *     lstm    gates i, f, g, o: c = sigmoid(f + forget) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c),
 *             where i is x + s, and so on
 *
 * The gradients of u and bias are sums over samples and times, as those of lk_linear().  `attr` may be NULL
 * for zeros.
 */
LK_API lk_status lk_rnn(lk_var x, lk_var u, lk_var h, const lk_recurrent_attr *attr, lk_var *y,
                        lk_var *last) LK_NODISCARD;
LK_API lk_status lk_gru(lk_var x, lk_var u, lk_var h, lk_var bias, const lk_recurrent_attr *attr,
                        lk_var *y, lk_var *last) LK_NODISCARD;
LK_API lk_status lk_lstm(lk_var x, lk_var u, lk_var h, lk_var c, const lk_recurrent_attr *attr,
                         lk_var *y, lk_var last[2]) LK_NODISCARD;

/* ---- normalisation, dropout and embedding ---- */

typedef struct lk_batch_norm_attr {
    double eps;       /* added to the variance; 0: 1e-5 */
    bool whole_batch; /* statistics of the whole batch instead of its pieces */
    lk_act act;       /* none, relu, sigmoid or tanh of the result, in one pass */
} lk_batch_norm_attr;

/**
 * (x - mean) gamma / sqrt(variance + eps) + beta for x [samples][...][channels], with mean and
 * variance of each channel over all positions of a piece of lk_tape_shard_size() samples, or over all if
 * attr->whole_batch.
 *
 * `gamma` and `beta` are [channels].  `*mean` and `*variance` (the sum of squares divided by their
 * number, not by one less) are [pieces][channels], without pieces if x is empty; both pointers
 * may be NULL.  Gradients flow through all three.  `attr` may be NULL for zeros.
 */
LK_API lk_status lk_batch_norm(lk_var x, lk_var gamma, lk_var beta, const lk_batch_norm_attr *attr,
                               lk_var *out, lk_var *mean, lk_var *variance) LK_NODISCARD;

/** (x - mean) gamma / sqrt(variance + eps) + beta with given statistics; all but x are [channels].
 * `attr` may be NULL for zeros. */
LK_API lk_status lk_batch_norm_inference(lk_var x, lk_var gamma, lk_var beta, lk_var mean,
                                         lk_var variance, const lk_batch_norm_attr *attr,
                                         lk_var *out) LK_NODISCARD;

typedef struct lk_lcn_attr {
    int64_t window[2]; /* rows and columns, both odd */
} lk_lcn_attr;

/**
 * Local contrast normalisation of images x [samples][rows][columns][channels], in two steps:
 *
 *     v = x - the sum of g x over the window and all channels
 *     y = v / s,  s = sqrt(the sum of g v^2 over the window and all channels), or 1 where that is 0
 *
 * g is a Gaussian of the distance to the centre with sigma = sqrt(a^2 + b^2) / 3, a and b the
 * window's rows and columns on each side, and sums to 1 over the window and all channels.  Outside
 * the image x and v are 0.
 */
LK_API lk_status lk_lcn(lk_var x, int64_t rows, int64_t columns, lk_var *out) LK_NODISCARD;

typedef struct lk_layer_norm_attr {
    int axes;   /* how many of the last axes are normalised over; 0: 1 */
    double eps; /* added to the variance; 0: 1e-5 */
    lk_act act; /* none, relu, sigmoid or tanh of the result, in one pass */
} lk_layer_norm_attr;

/**
 * (x - mean) / sqrt(variance + eps) * gamma + beta, mean and variance over the last axes of x;
 * `gamma` and `beta` have these axes.  `attr` may be NULL for zeros.
 */
LK_API lk_status lk_layer_norm(lk_var x, lk_var gamma, lk_var beta, const lk_layer_norm_attr *attr,
                               lk_var *out) LK_NODISCARD;

/** Which elements dropout keeps. */
typedef struct lk_dropout_attr {
    lk_rng stream; /* of the layer: lk_rng_start(seed, its name, "dropout") */
    int64_t step;  /* of the training, below 2^32 */
    int64_t first; /* the number of the first sample in the whole batch; the last is below 2^48 */
    double keep;   /* the probability of an element to stay, above 0 and at most 1 */
    lk_shape of;   /* a whole sample, of which x has a box; ndim 0: x has all of it */
    lk_box box;    /* which, of all axes of `of`, channels too */
} lk_dropout_attr;

/**
 * x / keep where the draw for (step, first + i, e) is kept, 0 elsewhere; i is the index along the
 * first axis and e counts the elements of a sample.  The draw is the same for f32 and f64 and for
 * any cut of the batch; backward draws it again.
 *
 * With attr->of, x is [samples][box...], and draws what these elements of the whole sample draw: a tile
 * and its margin have what their owners have.  Errors: also LK_EINVAL for a box that does not lie in
 * `of`, LK_ESHAPE when x is not such a box.
 */
LK_API lk_status lk_dropout(lk_var x, const lk_dropout_attr *attr, lk_var *out) LK_NODISCARD;

/** lk_dropout() of x, plus s, which has its shape: the bits of lk_add() of both, in one pass over memory. */
LK_API lk_status lk_dropout_add(lk_var x, const lk_dropout_attr *attr, lk_var s,
                                lk_var *out) LK_NODISCARD;

/**
 * Rows of `table` [n][d] by number: [...][d] for `index` [...], i64 or i32, of less than 8 axes.
 *
 * The gradient of the table adds rows in the order of their positions within a piece of the batch,
 * the first axis of `index`; pieces are joined by the fixed tree.
 *
 * Errors: LK_EINVAL for an index that is not in [0, n), naming its place and n.
 */
LK_API lk_status lk_embedding(lk_var table, lk_var index, lk_var *out) LK_NODISCARD;

/* ---- softmax and losses ---- */

typedef struct lk_softmax_attr {
    int axis; /* along which the results sum to 1, or LK_LAST_AXIS */
} lk_softmax_attr;

/**
 * exp(x) / sum exp(x) along an axis, of any size of x; see lk_softmax_rows() for infinities and NaN.
 * `axis` is an axis of x or LK_LAST_AXIS.
 */
LK_API lk_status lk_softmax(lk_var x, int axis, lk_var *out) LK_NODISCARD;

/** x - log sum exp(x) along an axis; as lk_softmax(). */
LK_API lk_status lk_log_softmax(lk_var x, int axis, lk_var *out) LK_NODISCARD;

/* How many losses become one number.  Their sum is cut into pieces of the batch, the first axis.
 * Means of no losses are NaN. */
typedef enum lk_loss_reduction {
    LK_LOSS_DEFAULT,     /* what the loss is known for: it says so */
    LK_LOSS_MEAN,        /* the sum divided by the number of losses */
    LK_LOSS_SAMPLE_MEAN, /* the sum divided by the size of the first axis: the mean over samples */
    LK_LOSS_SUM,
    LK_LOSS_NONE /* all losses */
} lk_loss_reduction;

typedef struct lk_loss_attr {
    lk_loss_reduction reduction;
} lk_loss_attr;

/**
 * -log softmax(x)[target] for logits x [...][classes] and labels [...], i64 or i32; or
 * -sum of target * log softmax(x) over the classes for probabilities of x's shape and dtype, which
 * need not sum to 1.  A term with target 0 is 0.  One loss for each row of x; by default their mean.
 *
 * Errors: LK_EINVAL for a label that is not in [0, classes), naming its place and the bound.
 */
LK_API lk_status lk_softmax_cross_entropy(lk_var x, lk_var target, lk_loss_reduction reduction,
                                          lk_var *out) LK_NODISCARD;

/**
 * -(target log s + (1 - target) log(1 - s)), s = sigmoid(x), for logits x; exact for large |x|.  One
 * loss for each element; by default their mean.  `target` has x's shape and dtype; it is not checked
 * to be in [0, 1].
 */
LK_API lk_status lk_logistic_cross_entropy(lk_var x, lk_var target, lk_loss_reduction reduction,
                                           lk_var *out) LK_NODISCARD;

/** (x - target)^2 for each element, without a factor; by default their mean over all elements.
 * `target` has x's shape and dtype. */
LK_API lk_status lk_mean_squared_error(lk_var x, lk_var target, lk_loss_reduction reduction,
                                       lk_var *out) LK_NODISCARD;

/** (x - target)^2 / 2 for each element, so that the gradient is x - target; by default their sum
 * over all elements.  `target` has x's shape and dtype. */
LK_API lk_status lk_sum_squared_error(lk_var x, lk_var target, lk_loss_reduction reduction,
                                      lk_var *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_OPS_H */
