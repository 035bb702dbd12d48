/* Checks of the three passes of a convolution: forward; backward for the input, which is the transposed
 * convolution as well; and backward for the weights, by pieces of samples that the fixed tree joins. */
#include "kernel/reference/reference.h"
#include "selfcheck/check_conv.h"

#include <lockstep/extra/reduce.h>

/* Inputs are x and w, dy and w, or x and dy, then the bias, of forward and of the transposed convolution; the
 * output is what is left. */
enum { IN_FIRST, IN_SECOND, IN_BIAS };

/* Ways of backward for the weights. */
enum { WHOLE, PIECES };

/* Which pass a check is of. */
enum conv_pass { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS };

static enum conv_pass pass_of(const check_case *c)
{
    return *(const enum conv_pass *)c->check->data;
}

static const void *bias_of(const check_case *c)
{
    bool has_bias = pass_of(c) == FORWARD ? c->index % 2 == 1 : c->index % 3 == 1;
    return has_bias ? c->in[IN_BIAS].data : NULL;
}

static lk_act act_of(const check_case *c)
{
    return c->index % 4 == 1 ? LK_ACT_RELU : c->index == 7 ? LK_ACT_TANH : LK_ACT_NONE;
}

static bool accumulates(const check_case *c)
{
    return pass_of(c) != FORWARD && c->index % 3 == 2;
}

static lk_status conv_setup(check_case *c)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    LK_TRY(check_conv_label(c));
    int64_t x = check_conv_x_size(&s), y = check_conv_y_size(&s), w = lk__ref_conv_weights(&s);
    enum conv_pass pass = pass_of(c);
    LK_TRY(check_input(c, c->dtype, pass == BACKWARD_DATA ? y : x, -1, 1));
    LK_TRY(check_input(c, c->dtype, pass == BACKWARD_WEIGHTS ? y : w, -1, 1));
    if (pass != BACKWARD_WEIGHTS)
        LK_TRY(check_input(c, c->dtype, pass == FORWARD ? s.out_channels : s.in_channels, -1, 1));
    LK_TRY(check_output(c, c->dtype,
                        pass == FORWARD         ? y
                        : pass == BACKWARD_DATA ? x
                                                : w,
                        accumulates(c)));
    if (pass == BACKWARD_WEIGHTS)
        c->ways = 1U << WHOLE | (accumulates(c) ? 0 : 1U << PIECES);
    else
        c->ways = 1U << CONV_WHOLE | 1U << CONV_BATCH | 1U << CONV_IMAGE;
    return LK_OK;
}

static lk_status run_plan(const check_case *c, lk_conv_plan *plan, const check_conv_part *p,
                          void *out)
{
    const void *first = c->in[IN_FIRST].data, *second = c->in[IN_SECOND].data;
    switch (pass_of(c)) {
    case FORWARD:
        return lk_conv_forward(plan, check_at(c->dtype, first, p->x), second, bias_of(c), act_of(c),
                               check_at(c->dtype, out, p->y));
    case BACKWARD_DATA:
        return lk_conv_backward_data(plan, check_at(c->dtype, first, p->y), second, bias_of(c),
                                     accumulates(c), check_at(c->dtype, out, p->x));
    default:
        return lk_conv_backward_weights(plan, check_at(c->dtype, first, p->x),
                                        check_at(c->dtype, second, p->y), accumulates(c), out);
    }
}

static lk_status run_part(const check_case *c, const check_conv_part *p, void *out)
{
    lk_conv_plan *plan;
    LK_TRY(lk_conv_plan_new(&p->shape, &plan));
    lk_status st = run_plan(c, plan, p, out);
    lk_conv_plan_free(plan);
    return LK_TRACE(st);
}

static lk_status conv_run(const check_case *c, int way, void *const *out)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    for (int i = 0; i < check_conv_n_parts(&s, way); i++) {
        check_conv_part part = check_conv_get_part(&s, way, i, pass_of(c) == BACKWARD_DATA);
        LK_TRY(run_part(c, &part, out[0]));
    }
    return LK_OK;
}

/* Each piece of samples in a call of its own, as ranks would. */
static lk_status push_pieces(const check_case *c, lk_tree *tree, void *piece)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    for (int64_t b = 0; b < s.batch; b += s.piece) {
        int64_t left = s.batch - b;
        check_conv_part part = check_conv_samples(&s,
                                                  (lk_range){b, left < s.piece ? left : s.piece});
        LK_TRY(run_part(c, &part, piece));
        LK_TRY(lk_tree_push(tree, piece));
    }
    return LK_OK;
}

static lk_status weights_run(const check_case *c, int way, void *const *out)
{
    if (way == PIECES)
        return LK_TRACE(check_join(c, push_pieces, out[0]));
    return LK_TRACE(conv_run(c, CONV_WHOLE, out));
}

static lk_status conv_expect(const check_case *c, check_truth *truth)
{
    const void *first = c->in[IN_FIRST].data, *second = c->in[IN_SECOND].data;
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    truth->has_bits[0] = true;
    switch (pass_of(c)) {
    case FORWARD:
        return LK_TRACE(lk__ref_conv_forward(&s, first, second, bias_of(c), act_of(c),
                                             truth->bits[0], truth->value[0]));
    case BACKWARD_DATA:
        return LK_TRACE(lk__ref_conv_backward_data(&s, first, second, bias_of(c), accumulates(c),
                                                   truth->bits[0], truth->value[0]));
    default:
        lk__ref_conv_backward_weights(&s, first, second, accumulates(c), truth->bits[0],
                                      truth->value[0]);
        return LK_OK;
    }
}

const lk__check lk__check_conv_forward = {
    .name = "conv_forward",
    .summary = "convolution in 1 to 3 dimensions, whole, by samples and by tiles of the image",
    .n_cases = CHECK_CONV_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = conv_setup,
    .run = conv_run,
    .expect = conv_expect,
    .data = &(const enum conv_pass){FORWARD},
};

const lk__check lk__check_conv_backward_data = {
    .name = "conv_backward_data",
    .summary = "its gradient for the input in gather form, also as transposed convolution",
    .n_cases = CHECK_CONV_CASES,
    .ways = {"whole", "split batch", "split image"},
    .setup = conv_setup,
    .run = conv_run,
    .expect = conv_expect,
    .data = &(const enum conv_pass){BACKWARD_DATA},
};

const lk__check lk__check_conv_backward_weights = {
    .name = "conv_backward_weights",
    .summary = "its gradient for the weights by pieces and the tree, whole and piece by piece",
    .n_cases = CHECK_CONV_CASES,
    .ways = {"whole", "pieces joined"},
    .setup = conv_setup,
    .run = weights_run,
    .expect = conv_expect,
    .data = &(const enum conv_pass){BACKWARD_WEIGHTS},
};
