/* Check of lk_conv_forward() and lk_conv_backward_data() by Winograd's algorithm.
 *
 * The values are those of the sums.  With operands below 1, the transforms of one axis make at most
 * 16, 17, 24 or 48 of a product with the outputs of a tile that are 0, 1, 2 or 3 behind its first;
 * each product is rounded as often as there are channels, and 19 times more. */
#include "selfcheck/check_conv.h"

#include <math.h>
#include <stdio.h>

enum { IN_X, IN_W, IN_BIAS, IN_DY };
enum { OUT_Y, OUT_DX };

static const struct winograd_case {
    int batch, ic, oc, in[2], pad_lo[2], pad_hi[2];
} cases[] = {
    {2, 3, 8, {9, 9}, {1, 1}, {1, 1}},     {3, 16, 17, {8, 7}, {1, 1}, {1, 1}},
    {2, 32, 33, {13, 11}, {1, 1}, {1, 1}}, {5, 24, 50, {6, 5}, {1, 1}, {1, 1}},
    {2, 5, 100, {10, 9}, {0, 0}, {0, 0}},  {1, 130, 40, {7, 6}, {1, 1}, {1, 1}},
    {3, 7, 8, {16, 12}, {2, 0}, {0, 2}},   {2, 1, 1, {5, 6}, {2, 2}, {2, 2}},
    {3, 7, 11, {1, 1}, {1, 1}, {1, 1}},    {2, 5, 6, {12, 11}, {-1, -2}, {0, -1}},
    {0, 3, 4, {5, 5}, {1, 1}, {1, 1}},     {2, 3, 4, {2, 5}, {0, 0}, {0, 0}},
    {2, 3, 4, {0, 3}, {2, 1}, {2, 1}},
};

enum { N_CASES = sizeof cases / sizeof cases[0] };

static bool accumulates(const check_case *c)
{
    return c->index % 2 == 1;
}

static lk_status shape_of(const check_case *c, lk_conv_shape *s)
{
    const struct winograd_case *k = &cases[c->index];
    *s = (lk_conv_shape){.dtype = c->dtype,
                         .window.ndim = 2,
                         .batch = k->batch,
                         .in_channels = k->ic,
                         .out_channels = k->oc,
                         .groups = 1,
                         .in = {k->in[0], k->in[1], 1},
                         .out = {1, 1, 1},
                         .window.kernel = {3, 3, 1},
                         .window.stride = {1, 1, 1},
                         .window.dilation = {1, 1, 1},
                         .window.pad_lo = {k->pad_lo[0], k->pad_lo[1]},
                         .algorithm = LK_CONV_WINOGRAD};
    for (int d = 0; d < 2; d++)
        LK_TRY(lk_conv_out(s->in[d], 3, 1, 1, k->pad_lo[d], k->pad_hi[d], &s->out[d]));
    s->x_step[2] = s->x_step[1] = k->ic;
    s->y_step[2] = s->y_step[1] = k->oc;
    s->x_step[0] = s->x_step[1] * s->in[1];
    s->y_step[0] = s->y_step[1] * s->out[1];
    s->x_sample = s->x_step[0] * s->in[0];
    s->y_sample = s->y_step[0] * s->out[0];
    return LK_OK;
}

static lk_status winograd_setup(check_case *c)
{
    const struct winograd_case *k = &cases[c->index];
    lk_conv_shape s;
    LK_TRY(shape_of(c, &s));
    snprintf(c->label, sizeof c->label, "%d of %dx%dx%d-%d, pad %d %d", k->batch, k->in[0],
             k->in[1], k->ic, k->oc, k->pad_lo[0], k->pad_lo[1]);
    LK_TRY(check_input(c, c->dtype, check_conv_x_size(&s), -1, 1));
    LK_TRY(check_input(c, c->dtype, check_conv_w_size(&s), -1, 1));
    LK_TRY(check_input(c, c->dtype, s.out_channels, -1, 1));
    LK_TRY(check_input(c, c->dtype, check_conv_y_size(&s), -1, 1));
    LK_TRY(check_output(c, c->dtype, check_conv_y_size(&s), false));
    LK_TRY(check_output(c, c->dtype, check_conv_x_size(&s), accumulates(c)));
    c->ways = 1U << CONV_WHOLE | 1U << CONV_BATCH;
    return LK_OK;
}

static lk_status run_part(const check_case *c, const check_conv_part *p, void *const *out)
{
    const lk_dtype t = c->dtype;
    lk_status st = LK_OK;
    lk_conv_plan *plan;
    LK_TRY(lk_conv_plan_new(&p->shape, &plan));
    LK_TRY_TO(done,
              lk_conv_forward(plan, check_at(t, c->in[IN_X].data, p->x), c->in[IN_W].data,
                              c->in[IN_BIAS].data, LK_ACT_RELU, check_at(t, out[OUT_Y], p->y)));
    LK_TRY_TO(done,
              lk_conv_backward_data(plan, check_at(t, c->in[IN_DY].data, p->y), c->in[IN_W].data,
                                    NULL, accumulates(c), check_at(t, out[OUT_DX], p->x)));
done:
    lk_conv_plan_free(plan);
    return st;
}

static lk_status winograd_run(const check_case *c, int way, void *const *out)
{
    lk_conv_shape s;
    LK_TRY(shape_of(c, &s));
    for (int i = 0; i < check_conv_n_parts(&s, way); i++) {
        check_conv_part part = check_conv_get_part(&s, way, i, false);
        LK_TRY(run_part(c, &part, out));
    }
    return LK_OK;
}

/* The error that is allowed of position `at` of a result that is a sum over `n` channels. */
static double allowed(lk_dtype dtype, int64_t n, const int64_t *at)
{
    static const double most[4] = {16, 17, 24, 48};
    double sums = (double)n * most[at[0] % 4] * most[at[1] % 4] + 1;
    return (double)(n + 20) * check_epsilon(dtype) * sums;
}

/* The sum of y[o] or (`data`) of dx[o], for one channel of sample b. */
static long double sum_of(const check_case *c, const lk_conv_shape *s, bool data, int64_t b,
                          const int64_t *o, int64_t channel)
{
    int64_t t[LK_CONV_MAX_NDIM] = {0};
    long double sum = 0;
    do {
        int64_t p[LK_CONV_MAX_NDIM] = {o[0] - s->window.pad_lo[0] + t[0],
                                       o[1] - s->window.pad_lo[1] + t[1], 0};
        if (data) {
            p[0] = o[0] + s->window.pad_lo[0] - t[0];
            p[1] = o[1] + s->window.pad_lo[1] - t[1];
        }
        const int64_t *size = data ? s->out : s->in;
        if (p[0] < 0 || p[0] >= size[0] || p[1] < 0 || p[1] >= size[1])
            continue;
        int64_t at = data ? b * s->y_sample + check_conv_offset(s->y_step, p)
                          : b * s->x_sample + check_conv_offset(s->x_step, p);
        for (int64_t k = 0; k < (data ? s->out_channels : s->in_channels); k++)
            sum += (long double)check_get(c->dtype, c->in[data ? IN_DY : IN_X].data, at + k) *
                   (long double)check_get(c->dtype, c->in[IN_W].data,
                                          data ? check_conv_w_at(s, t, channel, k)
                                               : check_conv_w_at(s, t, k, channel));
    } while (check_conv_next(s->window.kernel, t));
    return sum;
}

static void expect_pass(const check_case *c, const lk_conv_shape *s, bool data, check_truth *truth)
{
    const int which = data ? OUT_DX : OUT_Y;
    const int64_t *step = data ? s->x_step : s->y_step;
    int64_t k = data ? s->out_channels : s->in_channels;
    check_expect_nothing(c, truth, which);
    truth->has_bits[which] = false;
    for (int64_t b = 0; b < s->batch && c->out[which].n > 0; b++) {
        int64_t o[LK_CONV_MAX_NDIM] = {0};
        do
            for (int64_t j = 0; j < (data ? s->in_channels : s->out_channels); j++) {
                int64_t at = b * (data ? s->x_sample : s->y_sample) + check_conv_offset(step, o) +
                             j;
                long double v = sum_of(c, s, data, b, o, j);
                if (!data)
                    v = fmaxl(0, v + (long double)check_get(c->dtype, c->in[IN_BIAS].data, j));
                else if (accumulates(c))
                    v += (long double)check_get(c->dtype, c->out[which].data, at);
                check_expect_near(truth, which, at, c->dtype, v, 0, allowed(c->dtype, k, o));
            }
        while (check_conv_next(data ? s->in : s->out, o));
    }
}

static lk_status winograd_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape s;
    LK_TRY(shape_of(c, &s));
    expect_pass(c, &s, false, truth);
    expect_pass(c, &s, true, truth);
    return LK_OK;
}

const lk__check lk__check_conv_winograd = {
    .name = "conv_winograd",
    .summary = "convolution and its gradient for the input by Winograd's algorithm",
    .n_cases = N_CASES,
    .ways = {"whole", "split batch"},
    .setup = winograd_setup,
    .run = winograd_run,
    .expect = winograd_expect,
};
