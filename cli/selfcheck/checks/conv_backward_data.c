/* Check of lk_conv_backward_data(), which is the transposed convolution as well. */
#include "kernel/reference/reference.h"
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
    LK_TRY(check_input(c, c->dtype, lk__ref_conv_weights(&s), -1, 1));
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
    return LK_TRACE(st);
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

static lk_status conv_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    truth->has_bits[0] = true;
    return LK_TRACE(lk__ref_conv_backward_data(&s, c->in[IN_DY].data, c->in[IN_W].data,
                                               with_bias(c) ? c->in[IN_BIAS].data : NULL,
                                               accumulates(c), truth->bits[0], truth->value[0]));
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
