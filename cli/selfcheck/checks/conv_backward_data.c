/* Check of lk_conv_backward_data(), which is the transposed convolution as well. */
#include "selfcheck/check_conv.h"

enum { IN_DY, IN_W, IN_BIAS };

static bool with_bias(const check_case *c)
{
    return c->index % 3 == 1;
}

static bool accumulates(const check_case *c)
{
    return c->index % 3 == 2;
}

static lk_status conv_setup(check_case *c)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    LK_TRY(check_conv_label(c));
    LK_TRY(check_input(c, c->dtype, check_conv_y_size(&s), -1, 1));
    LK_TRY(check_input(c, c->dtype, check_conv_w_size(&s), -1, 1));
    LK_TRY(check_input(c, c->dtype, s.in_channels, -1, 1));
    LK_TRY(check_output(c, c->dtype, check_conv_x_size(&s), accumulates(c)));
    c->ways = 1U << CONV_WHOLE | 1U << CONV_BATCH | 1U << CONV_IMAGE;
    return LK_OK;
}

static lk_status run_part(const check_case *c, const check_conv_part *p, void *out)
{
    lk_conv_plan *plan;
    LK_TRY(lk_conv_plan_new(&p->shape, &plan));
    lk_status st = lk_conv_backward_data(
        plan, check_at(c->dtype, c->in[IN_DY].data, p->y), c->in[IN_W].data,
        with_bias(c) ? c->in[IN_BIAS].data : NULL, accumulates(c), check_at(c->dtype, out, p->x));
    lk_conv_plan_free(plan);
    LK_TRY(st);
    return LK_OK;
}

static lk_status conv_run(const check_case *c, int way, void *const *out)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    for (int i = 0; i < check_conv_n_parts(&s, way); i++) {
        check_conv_part part = check_conv_get_part(&s, way, i, true);
        LK_TRY(run_part(c, &part, out[0]));
    }
    return LK_OK;
}

/* Input i of sample b, channel ic: the outputs that read it in raster order, then their channels.
 * `start` is where the chain starts. */
static check_chain chain(const check_case *c, const lk_conv_shape *s, int64_t b, const int64_t *i,
                         int64_t ic, double start)
{
    int64_t in_group = s->in_channels / s->groups, out_group = s->out_channels / s->groups;
    int64_t first = ic / in_group * out_group;
    check_chain sum = check_chain_start(c->dtype, start);
    if (check_conv_y_size(s) == 0)
        return sum;
    int64_t o[LK_CONV_MAX_NDIM] = {0}, t[LK_CONV_MAX_NDIM];
    do {
        if (!check_conv_tap(s, o, i, t))
            continue;
        int64_t y = b * s->y_sample + check_conv_offset(s->y_step, o);
        for (int64_t oc = first; oc < first + out_group; oc++)
            check_chain_fma(
                &sum, check_get(c->dtype, c->in[IN_DY].data, y + oc),
                check_get(c->dtype, c->in[IN_W].data, check_conv_w_at(s, t, ic % in_group, oc)));
    } while (check_conv_next(s->out, o));
    return sum;
}

static lk_status conv_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    check_expect_nothing(c, truth, 0);
    if (c->out[0].n == 0)
        return LK_OK;
    for (int64_t b = 0; b < s.batch; b++) {
        int64_t i[LK_CONV_MAX_NDIM] = {0};
        do
            for (int64_t ic = 0; ic < s.in_channels; ic++) {
                int64_t at = b * s.x_sample + check_conv_offset(s.x_step, i) + ic;
                double start = 0;
                if (with_bias(c))
                    start = check_get(c->dtype, c->in[IN_BIAS].data, ic);
                if (accumulates(c))
                    start = check_get(c->dtype, c->out[0].data, at);
                check_chain sum = chain(c, &s, b, i, ic, start);
                check_expect(truth, 0, at, &sum);
            }
        while (check_conv_next(s.in, i));
    }
    return LK_OK;
}

const lk__check lk__check_conv_backward_data = {
    .name = "conv_backward_data",
    .summary = "its gradient for the input in gather form, also as transposed convolution",
    .n_cases = CHECK_CONV_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = conv_setup,
    .run = conv_run,
    .expect = conv_expect,
};
