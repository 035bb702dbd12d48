/* Check of lk_conv_forward(). */
#include "selfcheck/check_act.h"
#include "selfcheck/check_conv.h"

enum { IN_X, IN_W, IN_BIAS };

static bool with_bias(const check_case *c)
{
    return c->index % 2 == 1;
}

static lk_act act_of(const check_case *c)
{
    return c->index % 4 == 1 ? LK_ACT_RELU : c->index == 7 ? LK_ACT_TANH : LK_ACT_NONE;
}

static lk_status conv_setup(check_case *c)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    LK_TRY(check_conv_label(c));
    LK_TRY(check_input(c, c->dtype, check_conv_x_size(&s), -1, 1));
    LK_TRY(check_input(c, c->dtype, check_conv_w_size(&s), -1, 1));
    LK_TRY(check_input(c, c->dtype, s.out_channels, -1, 1));
    LK_TRY(check_output(c, c->dtype, check_conv_y_size(&s), false));
    c->ways = 1U << CONV_WHOLE | 1U << CONV_BATCH | 1U << CONV_IMAGE;
    return LK_OK;
}

static lk_status run_part(const check_case *c, const check_conv_part *p, void *out)
{
    lk_conv_plan *plan;
    LK_TRY(lk_conv_plan_new(&p->shape, &plan));
    lk_status st = lk_conv_forward(plan, check_at(c->dtype, c->in[IN_X].data, p->x),
                                   c->in[IN_W].data, with_bias(c) ? c->in[IN_BIAS].data : NULL,
                                   act_of(c), check_at(c->dtype, out, p->y));
    lk_conv_plan_free(plan);
    LK_TRY(st);
    return LK_OK;
}

static lk_status conv_run(const check_case *c, int way, void *const *out)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    for (int i = 0; i < check_conv_n_parts(&s, way); i++) {
        check_conv_part part = check_conv_get_part(&s, way, i, false);
        LK_TRY(run_part(c, &part, out[0]));
    }
    return LK_OK;
}

/* Output o of sample b, channel oc: taps in raster order, then input channels. */
static check_chain chain(const check_case *c, const lk_conv_shape *s, int64_t b, const int64_t *o,
                         int64_t oc)
{
    int64_t in_group = s->in_channels / s->groups;
    int64_t first = oc / (s->out_channels / s->groups) * in_group;
    double start = with_bias(c) ? check_get(c->dtype, c->in[IN_BIAS].data, oc) : 0;
    check_chain sum = check_chain_start(c->dtype, start);
    int64_t t[LK_CONV_MAX_NDIM] = {0}, i[LK_CONV_MAX_NDIM];
    do {
        if (!check_conv_reads(s, o, t, i))
            continue;
        int64_t x = b * s->x_sample + check_conv_offset(s->x_step, i) + first;
        for (int64_t ic = 0; ic < in_group; ic++)
            check_chain_fma(&sum, check_get(c->dtype, c->in[IN_X].data, x + ic),
                            check_get(c->dtype, c->in[IN_W].data, check_conv_w_at(s, t, ic, oc)));
    } while (check_conv_next(s->window.kernel, t));
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
        int64_t o[LK_CONV_MAX_NDIM] = {0};
        do
            for (int64_t oc = 0; oc < s.out_channels; oc++) {
                check_chain sum = chain(c, &s, b, o, oc);
                int64_t at = b * s.y_sample + check_conv_offset(s.y_step, o) + oc;
                check_expect(truth, 0, at, &sum);
                LK_TRY(check_act_apply(truth, 0, at, c->dtype, act_of(c)));
            }
        while (check_conv_next(s.out, o));
    }
    return LK_OK;
}

const lk__check lk__check_conv_forward = {
    .name = "conv_forward",
    .summary = "convolution in 1 to 3 dimensions, whole, by samples and by tiles of the image",
    .n_cases = CHECK_CONV_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = conv_setup,
    .run = conv_run,
    .expect = conv_expect,
};
