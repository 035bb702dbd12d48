/* Softmax by definition: the library's own exp and log, the lane sum of reduce.h. */
#include "selfcheck/check_softmax.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/reduce.h>

#include <math.h>
#include <stdio.h>

enum { WHOLE, PARTS, IN_PLACE };

static const lk_rows shapes[CHECK_SOFTMAX_CASES] = {
    {1, 1, 1, 1},     {3, 10, 10, 10}, {7, 1000, 1000, 1000}, {5, 17, 20, 20}, {2, 16, 16, 16},
    {61, 33, 33, 33}, {4, 2, 9, 9},    {300, 10, 10, 10},     {0, 5, 5, 5},    {4, 0, 3, 3},
};

lk_status check_softmax_setup(check_case *c)
{
    const lk_rows *s = &shapes[c->index];
    snprintf(c->label, sizeof c->label, "%lldx%lld, rows %lld apart", (long long)s->rows,
             (long long)s->cols, (long long)s->ld_x);
    /* Some with logits that would overflow if the maximum were not subtracted. */
    double range = c->index % 3 == 1 ? 1000 : 10;
    LK_TRY(check_input(c, c->dtype, s->rows * s->ld_x, -range, range));
    LK_TRY(check_output(c, c->dtype, s->rows * s->ld_y, false));
    c->ways = 1U << WHOLE | 1U << PARTS | (s->ld_x == s->cols ? 1U << IN_PLACE : 0);
    return LK_OK;
}

lk_status check_softmax_run(const check_case *c, int way, check_softmax_fn *fn, void *const *out)
{
    lk_rows s = shapes[c->index];
    const void *x = c->in[0].data;
    if (way == IN_PLACE) {
        LK_TRY(lk_map1(c->dtype, LK_MAP1_COPY, 0, c->in[0].n, x, out[0]));
        x = out[0];
    }
    int64_t rows = s.rows, cut = way == PARTS ? rows / 3 : 0;
    s.rows = cut;
    if (way == PARTS)
        LK_TRY(fn(c->dtype, &s, x, out[0]));
    s.rows = rows - cut;
    LK_TRY(fn(c->dtype, &s, check_at(c->dtype, x, cut * s.ld_x),
              check_at(c->dtype, out[0], cut * s.ld_y)));
    return LK_OK;
}

static double subtract(lk_dtype dtype, double a, double b)
{
    return dtype == LK_F32 ? (double)((float)a - (float)b) : a - b;
}

/* The lane sum of cols values at `e`. */
static double lane_sum(lk_dtype dtype, const void *e, int64_t cols)
{
    check_chain lane[LK_LANES];
    for (int l = 0; l < LK_LANES; l++)
        lane[l] = check_chain_start(dtype, 0);
    for (int64_t k = 0; k < cols; k++)
        check_chain_add(&lane[k % LK_LANES], check_get(dtype, e, k));
    return check_chain_tree(lane, LK_LANES).acc;
}

/* One row; `e` has room for it. */
static lk_status expect_row(const check_case *c, int64_t row, bool logarithm, void *e,
                            check_truth *truth)
{
    const lk_rows *s = &shapes[c->index];
    int64_t x0 = row * s->ld_x, y0 = row * s->ld_y;
    double max = (double)-INFINITY, sum, log_sum;
    for (int64_t k = 0; k < s->cols; k++)
        max = fmax(max, check_get(c->dtype, c->in[0].data, x0 + k));
    long double exact = 0;
    for (int64_t k = 0; k < s->cols; k++) {
        double x = check_get(c->dtype, c->in[0].data, x0 + k);
        check_set(c->dtype, e, k, subtract(c->dtype, x, max));
        exact += expl((long double)x - (long double)max);
    }
    LK_TRY(lk_map1(c->dtype, LK_MAP1_EXP, 0, s->cols, e, e));
    sum = lane_sum(c->dtype, e, s->cols);
    check_set(c->dtype, truth->bits[0], y0, sum);
    void *scratch = check_at(c->dtype, truth->bits[0], y0);
    LK_TRY(lk_map1(c->dtype, LK_MAP1_LOG, 0, 1, scratch, scratch));
    log_sum = check_get(c->dtype, scratch, 0);
    double eps = check_epsilon(c->dtype);
    for (int64_t k = 0; k < s->cols; k++) {
        double x = check_get(c->dtype, c->in[0].data, x0 + k);
        double shifted = subtract(c->dtype, x, max), term = check_get(c->dtype, e, k);
        double quotient = c->dtype == LK_F32 ? (double)((float)term / (float)sum) : term / sum;
        long double distance = (long double)x - (long double)max;
        /* The difference x - max is rounded, which exp magnifies by its size. */
        double slack = (double)(s->cols + 8) + (double)fabsl(distance);
        check_set(c->dtype, truth->bits[0], y0 + k,
                  logarithm ? subtract(c->dtype, shifted, log_sum) : quotient);
        check_expect_near(truth, 0, y0 + k, c->dtype,
                          logarithm ? distance - logl(exact) : expl(distance) / exact,
                          logarithm ? 2 : slack, logarithm ? slack * eps : 0);
    }
    return LK_OK;
}

lk_status check_softmax_expect(const check_case *c, bool logarithm, check_truth *truth)
{
    lk_status st = LK_OK;
    void *e;
    check_expect_nothing(c, truth, 0);
    LK_TRY(lk_alloc(&e, shapes[c->index].cols, lk_dtype_size(c->dtype)));
    for (int64_t r = 0; r < shapes[c->index].rows && shapes[c->index].cols > 0; r++)
        LK_TRY_TO(done, expect_row(c, r, logarithm, e, truth));
done:
    lk_free(e);
    return st;
}
