/* Softmax and its logarithm by rows. */
#include "kernel/reference/chain.h"

/* One row: `at` is its first element of x, `to` that of y. */
static void softmax_row(lk_dtype t, int64_t cols, bool logarithm, const void *at, void *to,
                        lk__ref_value *exact)
{
    double max = (double)-INFINITY, lane[LK_LANES] = {0};
    long double true_sum = 0;
    for (int64_t k = 0; k < cols; k++)
        max = fmax(max, real_get(t, at, k));
    for (int64_t k = 0; k < cols; k++) {
        const double x = real_get(t, at, k);
        lane[k % LK_LANES] = real_add(t, lane[k % LK_LANES],
                                      lk__ref_function(t, LK_MAP1_EXP, real_sub(t, x, max)));
        true_sum += expl((long double)x - (long double)max);
    }
    const double sum = lk__ref_tree(t, lane, LK_LANES);
    const double log_sum = lk__ref_function(t, LK_MAP1_LOG, sum);
    for (int64_t k = 0; k < cols; k++) {
        const double x = real_get(t, at, k), shifted = real_sub(t, x, max);
        const long double distance = (long double)x - (long double)max;
        /* The difference x - max is rounded, which exp magnifies by its size. */
        const double slack = (double)(cols + 8) + (double)fabsl(distance);
        real_set(t, to, k,
                 logarithm ? real_sub(t, shifted, log_sum)
                           : real_div(t, lk__ref_function(t, LK_MAP1_EXP, shifted), sum));
        if (exact)
            exact[k] = logarithm
                           ? lk__ref_near(t, distance - logl(true_sum), 2, slack * real_epsilon(t))
                           : lk__ref_near(t, expl(distance) / true_sum, slack, 0);
    }
}

void lk__ref_softmax_rows(lk_dtype dtype, const lk_rows *s, bool logarithm, const void *x, void *y,
                          lk__ref_value *exact)
{
    const size_t size = lk_dtype_size(dtype);
    for (int64_t r = 0; r < s->rows; r++)
        softmax_row(dtype, s->cols, logarithm, (const char *)x + (size_t)(r * s->ld_x) * size,
                    (char *)y + (size_t)(r * s->ld_y) * size, exact ? exact + r * s->ld_y : NULL);
}
