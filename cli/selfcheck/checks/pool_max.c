/* Check of lk_pool_max() and its backward pass. */
#include "selfcheck/check_pool.h"

#include <math.h>

static lk_status setup(check_case *c)
{
    LK_TRY(check_pool_setup(c, true));
    return LK_OK;
}

static lk_status forward(const lk_pool_shape *s, const check_pool_operands *o)
{
    LK_TRY(lk_pool_max(s, o->x, o->y, o->index));
    return LK_OK;
}

static lk_status backward(const lk_pool_shape *s, const check_pool_operands *o)
{
    LK_TRY(lk_pool_max_backward(s, o->dy, o->index, o->dx));
    return LK_OK;
}

static lk_status run(const check_case *c, int way, void *const *out)
{
    LK_TRY(check_pool_run(c, way, forward, backward, out));
    return LK_OK;
}

static int64_t raster(const lk_conv_shape *g, const int64_t *i)
{
    return (i[0] * g->in[1] + i[1]) * g->in[2] + i[2];
}

/* The first of the largest of window `o`. */
static void expect_y(const check_case *c, const lk_conv_shape *g, const int64_t *o, int64_t element,
                     check_truth *truth)
{
    int64_t t[LK_CONV_MAX_NDIM] = {0}, i[LK_CONV_MAX_NDIM], index = -1;
    int64_t sample = element / g->y_sample * g->x_sample, channel = element % g->in_channels;
    double best = -(double)INFINITY;
    do {
        if (!check_conv_reads(g, o, t, i))
            continue;
        double v = check_get(c->dtype, c->in[POOL_IN_X].data,
                             sample + check_conv_offset(g->x_step, i) + channel);
        if (index < 0 || v > best) {
            best = v;
            index = raster(g, i);
        }
    } while (check_conv_next(g->window.kernel, t));
    check_set(c->dtype, truth->bits[POOL_OUT_Y], element, best);
    ((int64_t *)truth->bits[POOL_OUT_INDEX])[element] = index;
    truth->has_bits[POOL_OUT_INDEX] = true;
}

/* The windows whose maximum is at `i`, in raster order. */
static void expect_dx(const check_case *c, const lk_conv_shape *g, const int64_t *i,
                      int64_t element, check_truth *truth)
{
    int64_t sample = element / g->x_sample * g->y_sample, channel = element % g->in_channels;
    check_chain sum = check_chain_start(c->dtype, 0);
    int64_t o[LK_CONV_MAX_NDIM] = {0}, t[LK_CONV_MAX_NDIM];
    do {
        int64_t at = sample + check_conv_offset(g->y_step, o) + channel;
        if (g->y_sample > 0 && check_conv_tap(g, o, i, t) &&
            ((int64_t *)truth->bits[POOL_OUT_INDEX])[at] == raster(g, i))
            check_chain_add(&sum, check_get(c->dtype, c->in[POOL_IN_DY].data, at));
    } while (check_conv_next(g->out, o));
    check_expect(truth, POOL_OUT_DX, element, &sum);
}

static lk_status expect(const check_case *c, check_truth *truth)
{
    LK_TRY(check_pool_each(c, expect_y, expect_dx, truth));
    return LK_OK;
}

const lk__check lk__check_pool_max = {
    .name = "pool_max",
    .summary = "max pooling: values, positions and the backward pass",
    .n_cases = CHECK_POOL_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = setup,
    .run = run,
    .expect = expect,
};
