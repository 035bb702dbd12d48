/* Check of lk_pool_l2() and its backward pass. */
#include "selfcheck/check_pool.h"

#include <math.h>

static lk_status setup(check_case *c)
{
    LK_TRY(check_pool_setup(c, false));
    return LK_OK;
}

static lk_status forward(const lk_pool_shape *s, const check_pool_operands *o)
{
    LK_TRY(lk_pool_l2(s, o->x, o->y));
    return LK_OK;
}

static lk_status backward(const lk_pool_shape *s, const check_pool_operands *o)
{
    LK_TRY(lk_pool_l2_backward(s, o->x, o->y, o->dy, o->dx));
    return LK_OK;
}

static lk_status run(const check_case *c, int way, void *const *out)
{
    LK_TRY(check_pool_run(c, way, forward, backward, out));
    return LK_OK;
}

static void expect_y(const check_case *c, const lk_conv_shape *g, const int64_t *o, int64_t element,
                     check_truth *truth)
{
    int64_t t[LK_CONV_MAX_NDIM] = {0}, i[LK_CONV_MAX_NDIM];
    int64_t sample = element / g->y_sample * g->x_sample, channel = element % g->in_channels;
    check_chain sum = check_chain_start(c->dtype, 0);
    do {
        if (!check_conv_reads(g, o, t, i))
            continue;
        double v = check_get(c->dtype, c->in[POOL_IN_X].data,
                             sample + check_conv_offset(g->x_step, i) + channel);
        check_chain_fma(&sum, v, v);
    } while (check_conv_next(g->window.kernel, t));
    check_expect(truth, POOL_OUT_Y, element, &sum);
    /* Of a sum of squares; the root halves the relative error and adds its own. */
    double root = sqrt(sum.hi);
    check_value *v = &truth->value[POOL_OUT_Y][element];
    v->lo = root > 0 ? (fma(-root, root, sum.hi) + sum.lo) / (2 * root) : 0;
    v->hi = root;
    v->bound = (double)(sum.length + 3) * check_epsilon(c->dtype) * root;
    check_set(c->dtype, truth->bits[POOL_OUT_Y], element,
              c->dtype == LK_F32 ? (double)sqrtf((float)sum.acc) : sqrt(sum.acc));
}

/* fma(dy, x / y, .) of the windows that cover `i` and are not zero, in raster order. */
static void expect_dx(const check_case *c, const lk_conv_shape *g, const int64_t *i,
                      int64_t element, check_truth *truth)
{
    int64_t sample = element / g->x_sample * g->y_sample, channel = element % g->in_channels;
    check_chain sum = check_chain_start(c->dtype, 0);
    int64_t o[LK_CONV_MAX_NDIM] = {0}, t[LK_CONV_MAX_NDIM];
    double x = check_get(c->dtype, c->in[POOL_IN_X].data, element), slack = 0;
    long double exact = 0;
    do {
        if (g->y_sample == 0 || !check_conv_tap(g, o, i, t))
            continue;
        int64_t at = sample + check_conv_offset(g->y_step, o) + channel;
        double y = check_get(c->dtype, truth->bits[POOL_OUT_Y], at);
        double dy = check_get(c->dtype, c->in[POOL_IN_DY].data, at);
        if (y == 0)
            continue;
        double q = c->dtype == LK_F32 ? (double)((float)x / (float)y) : x / y;
        check_chain_fma(&sum, dy, q);
        const check_value *v = &truth->value[POOL_OUT_Y][at];
        exact += (long double)dy * (long double)x / ((long double)v->hi + (long double)v->lo);
        /* The error that y and the quotient bring in. */
        slack += fabs(dy * q) * (v->bound / v->hi + 2 * check_epsilon(c->dtype));
    } while (check_conv_next(g->out, o));
    check_expect(truth, POOL_OUT_DX, element, &sum);
    check_value *v = &truth->value[POOL_OUT_DX][element];
    v->hi = (double)exact;
    v->lo = (double)(exact - (long double)v->hi);
    v->bound += slack;
}

static lk_status expect(const check_case *c, check_truth *truth)
{
    LK_TRY(check_pool_each(c, expect_y, expect_dx, truth));
    return LK_OK;
}

const lk__check lk__check_pool_l2 = {
    .name = "pool_l2",
    .summary = "L2 pooling and its backward pass",
    .n_cases = CHECK_POOL_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = setup,
    .run = run,
    .expect = expect,
};
