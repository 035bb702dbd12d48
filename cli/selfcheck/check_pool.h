/* What the checks of the three poolings share: shapes, and running them in parts.
 *
 * Inputs are x and dy; outputs y, dx and, for the maximum, the index.
 */
#ifndef LK_CLI_CHECK_POOL_H
#define LK_CLI_CHECK_POOL_H

#include "selfcheck/check_conv.h"

#include <lockstep/extra/pool.h>

enum { POOL_IN_X, POOL_IN_DY };
enum { POOL_OUT_Y, POOL_OUT_DX, POOL_OUT_INDEX };
enum { CHECK_POOL_CASES = 14 };

/* The operands of one call; `index` is NULL where the pooling has none. */
typedef struct check_pool_operands {
    const void *x, *dy;
    void *y, *dx;
    int64_t *index;
} check_pool_operands;

typedef lk_status check_pool_fn(const lk_pool_shape *s, const check_pool_operands *o);

/** The geometry of a case as the depthwise convolution that reads the same positions. */
lk_status check_pool_geometry(const check_case *c, lk_conv_shape *g) LK_NODISCARD;

/** Whether the case counts the padding in averages. */
bool check_pool_counts_padding(const check_case *c);

lk_status check_pool_setup(check_case *c, bool with_index) LK_NODISCARD;

/** Run both passes, whole or in parts, into out[]. */
lk_status check_pool_run(const check_case *c, int way, check_pool_fn *forward,
                         check_pool_fn *backward, void *const *out) LK_NODISCARD;

/** Called for every output element of the forward pass (position o) or the backward pass (i). */
typedef void check_pool_visit(const check_case *c, const lk_conv_shape *g, const int64_t *at,
                              int64_t element, check_truth *truth);

/**
 * Call `y` for every element of y and then `dx` for every element of dx, with its position in
 * `at` and its place in memory.
 */
lk_status check_pool_each(const check_case *c, check_pool_visit *y, check_pool_visit *dx,
                          check_truth *truth) LK_NODISCARD;

#endif /* LK_CLI_CHECK_POOL_H */
