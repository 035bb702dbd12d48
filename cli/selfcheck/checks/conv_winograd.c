/* Check of lk_conv_forward() and lk_conv_backward_data() by Winograd's algorithm.
 *
 * The values are those of the sums.  With operands below 1, the transforms of one axis make at most
 * 16, 17, 24 or 48 of a product with the outputs of a tile that are 0, 1, 2 or 3 behind its first;
 * each product is rounded as often as there are channels, and 19 times more. */
#include "kernel/reference/real.h"
#include "kernel/reference/reference.h"
#include "selfcheck/check_conv.h"

#include <stdio.h>
#include <string.h>

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
    lk_conv_shape given = {.dtype = c->dtype,
                           .window = {.ndim = 2, .kernel = {3, 3}},
                           .batch = k->batch,
                           .in_channels = k->ic,
                           .out_channels = k->oc,
                           .algorithm = LK_CONV_WINOGRAD};
    for (int d = 0; d < 2; d++) {
        given.in[d] = k->in[d];
        given.window.pad_lo[d] = k->pad_lo[d];
        LK_TRY(lk_conv_out(k->in[d], 3, 1, 1, k->pad_lo[d], k->pad_hi[d], &given.out[d]));
    }
    *s = lk__ref_conv_shape(&given);
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
    LK_TRY(check_input(c, c->dtype, lk__ref_conv_weights(&s), -1, 1));
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

/* The error that is allowed of a position of a result that is a sum over `n` channels. */
static double allowed(lk_dtype dtype, int64_t n, int64_t row, int64_t column)
{
    static const double most[4] = {16, 17, 24, 48};
    double sums = (double)n * most[row % 4] * most[column % 4] + 1;
    return (double)(n + 20) * real_epsilon(dtype) * sums;
}

/* Both passes by one of the algorithms. */
static lk_status expect_by(const check_case *c, lk_conv_shape *s, lk_conv_algorithm algorithm,
                           check_truth *truth)
{
    const bool direct = algorithm == LK_CONV_DIRECT;
    s->algorithm = algorithm;
    LK_TRY(lk__ref_conv_forward(s, c->in[IN_X].data, c->in[IN_W].data, c->in[IN_BIAS].data,
                                LK_ACT_RELU, truth->bits[OUT_Y],
                                direct ? truth->value[OUT_Y] : NULL));
    return LK_TRACE(lk__ref_conv_backward_data(s, c->in[IN_DY].data, c->in[IN_W].data, NULL,
                                               accumulates(c), truth->bits[OUT_DX],
                                               direct ? truth->value[OUT_DX] : NULL));
}

/* The values are those of the sums by the direct algorithm, with the bounds of this one. */
static lk_status winograd_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape s;
    LK_TRY(shape_of(c, &s));
    LK_TRY(expect_by(c, &s, LK_CONV_DIRECT, truth));
    for (int64_t i = 0; i < c->out[OUT_Y].n; i++) {
        int64_t at = i / s.out_channels;
        truth->value[OUT_Y][i].bound = allowed(c->dtype, s.in_channels, at / s.out[1] % s.out[0],
                                               at % s.out[1]);
    }
    for (int64_t i = 0; i < c->out[OUT_DX].n; i++) {
        int64_t at = i / s.in_channels;
        truth->value[OUT_DX][i].bound = allowed(c->dtype, s.out_channels, at / s.in[1] % s.in[0],
                                                at % s.in[1]);
    }
    if (accumulates(c)) /* as it began */
        memcpy(truth->bits[OUT_DX], c->out[OUT_DX].data,
               (size_t)c->out[OUT_DX].n * lk_dtype_size(c->dtype));
    LK_TRY(expect_by(c, &s, LK_CONV_WINOGRAD, truth));
    truth->has_bits[OUT_Y] = truth->has_bits[OUT_DX] = true;
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
