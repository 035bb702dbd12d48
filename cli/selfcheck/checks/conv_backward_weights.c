/* Check of lk_conv_backward_weights(): pieces of samples, joined by the fixed tree. */
#include "selfcheck/check_conv.h"

#include <lockstep/extra/alloc.h>
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
    LK_TRY(check_output(c, c->dtype, check_conv_w_size(&s), accumulates(c)));
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
    LK_TRY(st);
    return LK_OK;
}

/* Each piece of samples in a call of its own, as ranks would. */
static lk_status push_pieces(const check_case *c, const lk_conv_shape *s, lk_tree *tree,
                             void *piece)
{
    for (int64_t b = 0; b < s->batch; b += s->piece) {
        int64_t end = b + s->piece < s->batch ? b + s->piece : s->batch;
        check_conv_part part = check_conv_samples(s, (int64_t[]){b, end});
        LK_TRY(run_part(c, &part, piece));
        LK_TRY(lk_tree_push(tree, piece));
    }
    return LK_OK;
}

static lk_status conv_run(const check_case *c, int way, void *const *out)
{
    lk_conv_shape s;
    LK_TRY(check_conv_shape(c, &s));
    if (way == WHOLE) {
        check_conv_part whole = {.shape = s};
        LK_TRY(run_part(c, &whole, out[0]));
        return LK_OK;
    }
    lk_status st;
    lk_tree *tree = NULL;
    void *piece = NULL;
    LK_TRY_TO(done, lk_tree_new(c->dtype, c->out[0].n, &tree));
    LK_TRY_TO(done, lk_alloc(&piece, c->out[0].n, lk_dtype_size(c->dtype)));
    LK_TRY_TO(done, push_pieces(c, &s, tree, piece));
    LK_TRY_TO(done, lk_tree_finish(tree, out[0]));
done:
    lk_tree_free(tree);
    lk_free(piece);
    return st;
}

/* Samples [b[0], b[1]) of the weight of tap t from ic (of the group) to oc. */
static check_chain chain(const check_case *c, const lk_conv_shape *s, const int64_t b[2],
                         const int64_t *t, int64_t ic, int64_t oc)
{
    int64_t first = oc / (s->out_channels / s->groups) * (s->in_channels / s->groups);
    check_chain sum = check_chain_start(c->dtype, 0);
    for (int64_t q = b[0]; q < b[1] && s->y_sample > 0; q++) {
        int64_t o[LK_CONV_MAX_NDIM] = {0}, i[LK_CONV_MAX_NDIM];
        do {
            if (!check_conv_reads(s, o, t, i))
                continue;
            int64_t x = q * s->x_sample + check_conv_offset(s->x_step, i) + first + ic;
            int64_t y = q * s->y_sample + check_conv_offset(s->y_step, o) + oc;
            check_chain_fma(&sum, check_get(c->dtype, c->in[IN_X].data, x),
                            check_get(c->dtype, c->in[IN_DY].data, y));
        } while (check_conv_next(s->out, o));
    }
    return sum;
}

/* One weight: all pieces and the tree. */
static void expect_weight(const check_case *c, const lk_conv_shape *s, const int64_t *t,
                          const int64_t channel[2], check_chain *piece, check_truth *truth)
{
    int64_t n = (s->batch + s->piece - 1) / s->piece;
    int64_t at = check_conv_w_at(s, t, channel[0], channel[1]);
    for (int64_t p = 0; p < n; p++) {
        int64_t end = (p + 1) * s->piece < s->batch ? (p + 1) * s->piece : s->batch;
        piece[p] = chain(c, s, (int64_t[]){p * s->piece, end}, t, channel[0], channel[1]);
    }
    check_chain sum = n > 0 ? check_chain_tree(piece, n) : check_chain_start(c->dtype, 0);
    if (accumulates(c))
        sum = check_chain_join(check_chain_start(c->dtype, check_get(c->dtype, c->out[0].data, at)),
                               sum);
    check_expect(truth, 0, at, &sum);
}

static lk_status conv_expect(const check_case *c, check_truth *truth)
{
    lk_conv_shape s;
    check_chain *piece;
    LK_TRY(check_conv_shape(c, &s));
    LK_TRY(lk_alloc(&piece, s.batch, sizeof *piece));
    int64_t t[LK_CONV_MAX_NDIM] = {0};
    do
        for (int64_t ic = 0; ic < s.in_channels / s.groups; ic++)
            for (int64_t oc = 0; oc < s.out_channels; oc++)
                expect_weight(c, &s, t, (int64_t[]){ic, oc}, piece, truth);
    while (check_conv_next(s.window.kernel, t));
    lk_free(piece);
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
