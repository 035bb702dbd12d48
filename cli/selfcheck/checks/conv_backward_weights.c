/* Check of lk_conv_backward_weights(): pieces of samples, joined by the fixed tree. */
#include "kernel/reference/reference.h"
#include "selfcheck/check_conv.h"

#include <lockstep/extra/reduce.h>

enum { IN_X, IN_DY };
enum { WHOLE, PIECES };

static bool accumulates(const check_case *c)
{
    return c->index % 3 == 2;
}

static lk_status conv_setup(check_case *c)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    LK_TRY(check_conv_label(c));
    LK_TRY(check_input(c, c->dtype, check_conv_x_size(&s), -1, 1));
    LK_TRY(check_input(c, c->dtype, check_conv_y_size(&s), -1, 1));
    LK_TRY(check_output(c, c->dtype, lk__ref_conv_weights(&s), accumulates(c)));
    c->ways = 1U << WHOLE | (accumulates(c) ? 0 : 1U << PIECES);
    return LK_OK;
}

static lk_status run_part(const check_case *c, const check_conv_part *p, void *out)
{
    lk_conv_plan *plan;
    LK_TRY(lk_conv_plan_new(&p->shape, &plan));
    lk_status st = lk_conv_backward_weights(plan, check_at(c->dtype, c->in[IN_X].data, p->x),
                                            check_at(c->dtype, c->in[IN_DY].data, p->y),
                                            accumulates(c), out);
    lk_conv_plan_free(plan);
    return LK_TRACE(st);
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

static lk_status conv_run(const check_case *c, int way, void *const *out)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    check_conv_part whole = {.shape = s};
    if (way == WHOLE)
        LK_TRY(run_part(c, &whole, out[0]));
    else
        LK_TRY(check_join(c, push_pieces, out[0]));
    return LK_OK;
}

static lk_status conv_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    truth->has_bits[0] = true;
    lk__ref_conv_backward_weights(&s, c->in[IN_X].data, c->in[IN_DY].data, accumulates(c),
                                  truth->bits[0], truth->value[0]);
    return LK_OK;
}

const lk__check lk__check_conv_backward_weights = {
    .name = "conv_backward_weights",
    .summary = "its gradient for the weights by pieces and the tree, whole and piece by piece",
    .n_cases = CHECK_CONV_CASES,
    .ways = {"whole", "pieces joined"},
    .setup = conv_setup,
    .run = conv_run,
    .expect = conv_expect,
};
