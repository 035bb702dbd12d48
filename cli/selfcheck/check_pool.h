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

/** All but the index, which a pooling that has one adds as the third output. */
lk_status check_pool_setup(check_case *c) LK_NODISCARD;

/** Run both passes, whole or in parts, into out[]. */
lk_status check_pool_run(const check_case *c, int way, check_pool_fn *forward,
                         check_pool_fn *backward, void *const *out) LK_NODISCARD;

/** The whole case for its definition: outputs are the bits that must come out. */
lk_status check_pool_expect(const check_case *c, check_truth *truth, lk_pool_shape *s,
                            check_pool_operands *o) LK_NODISCARD;

#endif /* LK_CLI_CHECK_POOL_H */
