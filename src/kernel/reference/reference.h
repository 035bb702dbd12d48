/* The kernels by definition: plain loops that compute each output by itself, in the order that the
 * arithmetic prescribes (docs/reference/numerics.md), without regard to speed.
 *
 * This is the specification to read, and what the kernels are compared with: by `lockstep selfcheck` and
 * by the tests.  It is linked into these alone, is no part of the library, and calls no kernel, but for
 * the functions of one number (exp, log, tanh, ...), whose bits are the library's own: lk_map1() gives
 * them.  Operands are described by the structs of the public headers, and are not checked.
 *
 * The words:
 *
 *   chain   acc = start, then acc = fma(a, b, acc) or acc = acc + b for each term in order
 *   pieces  ranges of a sum, each a chain from +0
 *   tree    tree(v0 ... v(n-1)) = tree(v0 ... v(h-1)) + tree(vh ... v(n-1)), h the largest power of
 *           two below n: how pieces are joined
 *   lanes   sixteen chains, element i being in lane i mod 16, joined by the tree
 *
 * Each function can also say what the outputs approximate: `exact`, with an entry for each element of the
 * output in memory, or NULL.  Elements that are not computed are left as they are, in both.
 */
#ifndef LK_KERNEL_REFERENCE_H
#define LK_KERNEL_REFERENCE_H

#include <lockstep/extra/gemm.h>
#include <lockstep/extra/pool.h>
#include <lockstep/extra/recurrence.h>
#include <lockstep/extra/reduce.h>

/* A true value, hi + lo, and the error that the arithmetic allows; a bound below 0 claims nothing. */
typedef struct lk__ref_value {
    double hi, lo, bound;
} lk__ref_value;

/** `v`, up to `ulps` units in its last place in the type and `absolute`; what overflows is infinite. */
lk__ref_value lk__ref_near(lk_dtype dtype, long double v, double ulps, double absolute);

/* ---- functions of one and two numbers ---- */

/** Whether `op` is one rounded operation or a choice; then *y is op(x; p). */
bool lk__ref_map1(lk_dtype dtype, lk_map1_op op, double p, double x, double *y);
bool lk__ref_map2(lk_dtype dtype, lk_map2_op op, double p, double x, double y, double *z);

/** What the other functions approximate, with the error that they may have. */
lk__ref_value lk__ref_map1_value(lk_dtype dtype, lk_map1_op op, double p, double x);
lk__ref_value lk__ref_map2_value(lk_dtype dtype, lk_map2_op op, double x, double y);

/** Any function, p = 0, by lk_map1(); NaN where it fails, as it does on a thread that rounds otherwise. */
double lk__ref_function(lk_dtype dtype, lk_map1_op op, double x);

/** act(x), and the name of an activation. */
double lk__ref_act(lk_dtype dtype, lk_act act, double x);
const char *lk__ref_act_name(lk_act act);

/** What act(x) approximates where x approximates `x`. */
lk__ref_value lk__ref_act_value(lk_dtype dtype, lk_act act, lk__ref_value x);

/* ---- sums ---- */

/** The tree over n values of the type, and their sum by lanes; 0 for none. */
double lk__ref_tree(lk_dtype dtype, const double *v, int64_t n);
double lk__ref_lanes(lk_dtype dtype, const double *v, int64_t n);

/** sum[i] = the tree over v[0][i] ... v[n-1][i], of vectors of `count` elements. */
void lk__ref_tree_vectors(lk_dtype dtype, int64_t n, int64_t count, const void *v, void *sum,
                          lk__ref_value *exact);

/** lk_reduce_axis(): of each piece lanes from the neutral element, the pieces joined by the tree. */
void lk__ref_reduce_axis(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_axis_shape *s,
                         const void *x, void *y, lk__ref_value *exact);

/** lk_reduce_box(): of each piece of samples lanes, over its rows.  It says nothing of true values. */
void lk__ref_reduce_box(lk_dtype dtype, lk_reduce_axis_op op, const lk_reduce_box_shape *s,
                        const void *x, void *y);

/** lk_softmax_rows(), or lk_log_softmax_rows(): e = exp(x - max), their sum by lanes, e / sum or
 * (x - max) - log(sum). */
void lk__ref_softmax_rows(lk_dtype dtype, const lk_rows *s, bool logarithm, const void *x, void *y,
                          lk__ref_value *exact);

/* ---- products ---- */

/** lk_gemm_run(): one chain over k from the start; or pieces of k and the tree, behind the start. */
void lk__ref_gemm(const lk_gemm *g, const void *a, const void *b, const void *bias, void *c,
                  lk__ref_value *exact);

/** The same shape with nothing left to its default: axes from window.ndim on have one position. */
lk_conv_shape lk__ref_conv_shape(const lk_conv_shape *s);

/** Elements of x, or (`y`) of y, of such a shape from the first to behind the last, and those of w. */
int64_t lk__ref_conv_extent(const lk_conv_shape *s, bool y);
int64_t lk__ref_conv_weights(const lk_conv_shape *s);

/**
 * lk_conv_forward(): from the bias, taps in raster order, then input channels; or Winograd's tiles.
 *
 * Of the latter nothing is said in `exact`.  Errors: LK_ENOMEM.
 */
lk_status lk__ref_conv_forward(const lk_conv_shape *s, const void *x, const void *w,
                               const void *bias, lk_act act, void *y,
                               lk__ref_value *exact) LK_NODISCARD;

/** lk_conv_backward_data(): from the bias or the old value, output positions in raster order, then output
 * channels.  Otherwise as lk__ref_conv_forward(). */
lk_status lk__ref_conv_backward_data(const lk_conv_shape *s, const void *dy, const void *w,
                                     const void *bias, bool accumulate, void *dx,
                                     lk__ref_value *exact) LK_NODISCARD;

/** lk_conv_backward_weights(): of each piece one chain over samples, then output positions in raster
 * order; the tree over pieces; behind the old value. */
void lk__ref_conv_backward_weights(const lk_conv_shape *s, const void *x, const void *dy,
                                   bool accumulate, void *dw, lk__ref_value *exact);

/** Both passes by Winograd's algorithm: forward from x to y, or (`data`) backward from dy to dx. */
lk_status lk__ref_conv_winograd(const lk_conv_shape *s, bool data, const void *in, const void *w,
                                const void *bias, bool accumulate, lk_act act,
                                void *out) LK_NODISCARD;

/* ---- pools: taps in raster order; backward the windows over a position in raster order ---- */

/** The first of the largest, NaN being larger than all; `index` may be NULL. */
void lk__ref_pool_max(const lk_pool_shape *s, const void *x, void *y, int64_t *index,
                      lk__ref_value *exact);

/** A chain of additions divided by the taps within x, or by all of them. */
void lk__ref_pool_avg(const lk_pool_shape *s, const void *x, void *y, lk__ref_value *exact);

/** The root of a chain of squares. */
void lk__ref_pool_l2(const lk_pool_shape *s, const void *x, void *y, lk__ref_value *exact);

/** A chain of the dy whose index is this position, of the quotients dy / divisor, of dy (x / y). */
void lk__ref_pool_max_backward(const lk_pool_shape *s, const void *dy, const int64_t *index,
                               void *dx, lk__ref_value *exact);
void lk__ref_pool_avg_backward(const lk_pool_shape *s, const void *dy, void *dx,
                               lk__ref_value *exact);
void lk__ref_pool_l2_backward(const lk_pool_shape *s, const void *x, const void *y, const void *dy,
                              void *dx, lk__ref_value *exact);

/* ---- recurrent cells: the expressions of extra/recurrence.h ---- */

/** As lk_recurrence_forward() and lk_recurrence_backward().  v->kept is of the layout that these have:
 * at each time r, z, n and q of all units, or i, f, g, o, tanh(c) and c'. */
void lk__ref_recurrence_forward(const lk_recurrence *r, const lk_recurrence_values *v);
void lk__ref_recurrence_backward(const lk_recurrence *r, const lk_recurrence_values *v,
                                 const lk_recurrence_grads *g);

#endif /* LK_KERNEL_REFERENCE_H */
