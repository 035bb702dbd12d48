/* What the checks of softmax and log-softmax share. */
#ifndef LK_CLI_CHECK_SOFTMAX_H
#define LK_CLI_CHECK_SOFTMAX_H

#include "selfcheck/check.h"

#include <lockstep/extra/map.h>

enum { CHECK_SOFTMAX_CASES = 10 };

typedef lk_status check_softmax_fn(lk_dtype dtype, const lk_rows *shape, const void *x, void *y);

lk_status check_softmax_setup(check_case *c) LK_NODISCARD;

/** Run `fn` whole, by rows, or in place. */
lk_status check_softmax_run(const check_case *c, int way, check_softmax_fn *fn,
                            void *const *out) LK_NODISCARD;

/** Expect softmax, or its logarithm. */
lk_status check_softmax_expect(const check_case *c, bool logarithm,
                               check_truth *truth) LK_NODISCARD;

#endif /* LK_CLI_CHECK_SOFTMAX_H */
