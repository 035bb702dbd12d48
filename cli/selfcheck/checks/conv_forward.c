/* Check of lk_conv_forward(). */
#include "kernel/reference/reference.h"
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
    LK_TRY(check_input(c, c->dtype, lk__ref_conv_weights(&s), -1, 1));
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
    return LK_TRACE(st);
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

static lk_status conv_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    truth->has_bits[0] = true;
    return LK_TRACE(lk__ref_conv_forward(&s, c->in[IN_X].data, c->in[IN_W].data,
                                         with_bias(c) ? c->in[IN_BIAS].data : NULL, act_of(c),
                                         truth->bits[0], truth->value[0]));
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
