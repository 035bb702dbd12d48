/* Check of lk_pool_avg() and its backward pass. */
#include "selfcheck/check_pool.h"

static lk_status setup(check_case *c)
{
    LK_TRY(check_pool_setup(c, false));
    return LK_OK;
}

static lk_status forward(const lk_pool_shape *s, const check_pool_operands *o)
{
    LK_TRY(lk_pool_avg(s, o->x, o->y));
    return LK_OK;
}

static lk_status backward(const lk_pool_shape *s, const check_pool_operands *o)
{
    LK_TRY(lk_pool_avg_backward(s, o->dy, o->dx));
    return LK_OK;
}

static lk_status run(const check_case *c, int way, void *const *out)
{
    LK_TRY(check_pool_run(c, way, forward, backward, out));
    return LK_OK;
}

/* What window `o` is divided by. */
static double divisor(const check_case *c, const lk_conv_shape *g, const int64_t *o)
{
    int64_t t[LK_CONV_MAX_NDIM] = {0}, i[LK_CONV_MAX_NDIM], n = 0;
    do
        n += check_pool_counts_padding(c) || check_conv_reads(g, o, t, i);
    while (check_conv_next(g->window.kernel, t));
    return (double)n;
}

/* The quotient of a chain and a small whole number. */
static check_chain divided(check_chain sum, double n)
{
    sum.acc = sum.dtype == LK_F32 ? (double)((float)sum.acc / (float)n) : sum.acc / n;
    double hi = sum.hi / n;
    sum.lo = ((sum.hi - hi * n) + sum.lo) / n;
    sum.hi = hi;
    sum.magnitude /= n;
    return sum;
}

static void expect_y(const check_case *c, const lk_conv_shape *g, const int64_t *o, int64_t element,
                     check_truth *truth)
{
    int64_t t[LK_CONV_MAX_NDIM] = {0}, i[LK_CONV_MAX_NDIM];
    int64_t sample = element / g->y_sample * g->x_sample, channel = element % g->in_channels;
    check_chain sum = check_chain_start(c->dtype, 0);
    do {
        if (check_conv_reads(g, o, t, i))
            check_chain_add(&sum, check_get(c->dtype, c->in[POOL_IN_X].data,
                                            sample + check_conv_offset(g->x_step, i) + channel));
    } while (check_conv_next(g->window.kernel, t));
    if (sum.length > 0)
        sum = divided(sum, divisor(c, g, o));
    check_expect(truth, POOL_OUT_Y, element, &sum);
}

/* The windows that cover `i` in raster order, each with its own divisor. */
static void expect_dx(const check_case *c, const lk_conv_shape *g, const int64_t *i,
                      int64_t element, check_truth *truth)
{
    int64_t sample = element / g->x_sample * g->y_sample, channel = element % g->in_channels;
    check_chain sum = check_chain_start(c->dtype, 0);
    int64_t o[LK_CONV_MAX_NDIM] = {0}, t[LK_CONV_MAX_NDIM];
    do {
        if (g->y_sample == 0 || !check_conv_tap(g, o, i, t))
            continue;
        double dy = check_get(c->dtype, c->in[POOL_IN_DY].data,
                              sample + check_conv_offset(g->y_step, o) + channel);
        sum = check_chain_join(sum, divided(check_chain_start(c->dtype, dy), divisor(c, g, o)));
    } while (check_conv_next(g->out, o));
    check_expect(truth, POOL_OUT_DX, element, &sum);
}

static lk_status expect(const check_case *c, check_truth *truth)
{
    LK_TRY(check_pool_each(c, expect_y, expect_dx, truth));
    return LK_OK;
}

const lk__check lk__check_pool_avg = {
    .name = "pool_avg",
    .summary = "average pooling, with and without the padding counted, and the backward pass",
    .n_cases = CHECK_POOL_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = setup,
    .run = run,
    .expect = expect,
};
