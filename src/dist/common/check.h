/* One sample of a gradient check on this rank: its tensors, and how to evaluate it.
 *
 * Each rank owns a tensor for each of its inputs, for each output's cotangent and for each input's
 * direction d.  Evaluating is a pass over a fresh tape on all ranks; a derivative is four of them, in
 * which ranks move one of their tensors along a direction.  Everything but drawing is collective.
 */
#ifndef LK_DIST_COMMON_CHECK_H
#define LK_DIST_COMMON_CHECK_H

#include "tensor/tensor.h"

#include <lockstep/extra/dist_check.h>
#include <lockstep/rng.h>

enum { LK_CHECK_IN = LK_SAMPLE_MAX_IN, LK_CHECK_OUT = LK_MAX_OUT };

/* What is drawn: the number of its place in the stream. */
enum { LK_DRAW_X, LK_DRAW_D = 100, LK_DRAW_C = 200, LK_DRAW_U = 300 };

/* Inputs and cotangents in one dtype; c[j] is NULL where output j has no gradient on this rank. */
typedef struct lk__check_values {
    lk_tensor *x[LK_CHECK_IN], *c[LK_CHECK_OUT];
} lk__check_values;

typedef struct lk__node_check {
    lk_comm *all, *comm; /* all ranks; those of this rank's group */
    const lk_dist_sample *sample;
    int number;
    lk_rng rng;
    lk_tape *tape;
    lk__check_values v;                         /* in f64 */
    lk_tensor *d[LK_CHECK_IN], *g[LK_CHECK_IN]; /* directions; dL/dx */
    lk_gradcheck_result *result;
    double tolerance;
} lk__node_check;

/* What one evaluation has on the tape. */
typedef struct lk__check_point {
    lk_var x[LK_CHECK_IN], y[LK_CHECK_OUT], c[LK_CHECK_OUT], g[LK_CHECK_IN];
} lk__check_point;

/** Make tape, inputs, directions, and cotangents of the outputs that have a gradient. */
lk_status lk__check_start(lk__node_check *k) LK_NODISCARD;
void lk__check_free(lk__node_check *k);

/** A new tensor of uniform draws in (-1, 1) that belong to this rank. */
lk_status lk__check_draw(const lk__node_check *k, int purpose, lk_shape shape,
                         lk_tensor **out) LK_NODISCARD;

/** y of the inputs as they are now, on an empty tape; then g = dL/dx, which depends on x and c if it
 * is recorded. */
lk_status lk__check_forward(lk__node_check *k, const lk__check_values *v,
                            lk__check_point *p) LK_NODISCARD;
lk_status lk__check_backward(lk__node_check *k, const lk__check_values *v, lk__check_point *p,
                             unsigned flags) LK_NODISCARD;

/** dL, or dS if `second`, when this rank moves its tensor `t` along `u`; NULL: it moves nothing. */
lk_status lk__check_differentiate(lk__node_check *k, bool second, lk_tensor *t, const lk_tensor *u,
                                  double *out) LK_NODISCARD;

/** A copy of a variable's elements in f64, which the caller frees. */
lk_status lk__check_take(lk_var v, lk_tensor **out) LK_NODISCARD;

/** Add <a, b>, and the sum of the absolute values of its terms. */
lk_status lk__check_dot(lk_var a, const lk_tensor *b, long double *sum,
                        long double *scale) LK_NODISCARD;

/** Sum of `n` numbers over all ranks. */
lk_status lk__check_total(const lk__node_check *k, double *v, int n) LK_NODISCARD;

static inline double *lk__check_elements(const lk_tensor *t)
{
    return (double *)(void *)lk__tensor_start(t);
}

#endif /* LK_DIST_COMMON_CHECK_H */
