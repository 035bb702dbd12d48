/* Sums over a Gaussian window, of images of one channel: the linear part of local contrast
 * normalisation.
 *
 *   y(p) = sum of g(q) x(p + q) over the window's positions q, in raster order from +0, each product
 *          rounded; positions outside the image are skipped
 *
 * g is symmetric, so this is its own adjoint.
 */
#ifndef LK_OPS_COMMON_GAUSS_H
#define LK_OPS_COMMON_GAUSS_H

#include <lockstep/op.h>

typedef struct lk__gauss {
    int64_t size[2];  /* rows and columns, odd */
    int64_t channels; /* of the images it is used for: g sums to 1 / channels */
} lk__gauss;

/** Images [n][rows][columns] with a window. */
typedef struct lk__gauss_shape {
    lk_dtype dtype;
    int64_t n, rows, columns;
    const lk__gauss *window;
    const double *g; /* as lk__gauss_make() gives it */
} lk__gauss_shape;

/** *out = g, size[0] * size[1] numbers, until the call ends. */
lk_status lk__gauss_make(lk_call *c, const lk__gauss *w, const double **out) LK_NODISCARD;

/** y = the sums of x, which it must not overlap. */
lk_status lk__gauss_sum(const lk__gauss_shape *s, const void *x, void *y) LK_NODISCARD;

/** The same as an op, for x [n][rows][columns][1]. */
lk_status lk__gauss_apply(lk_var x, const lk__gauss *w, lk_var *out) LK_NODISCARD;

#endif /* LK_OPS_COMMON_GAUSS_H */
