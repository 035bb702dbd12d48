/* Check of lk_reduce_axis() and lk_reduce_box(): lanes, pieces and the fixed tree, for every
 * operator. */
#include "kernel/reference/reference.h"
#include "selfcheck/check.h"

#include <lockstep/extra/reduce.h>

#include <stdio.h>

enum { WHOLE, PARTS, PIECES };

static const lk_reduce_axis_shape shapes[] = {
    {1, 1, 1, 0},  {1, 1009, 1, 0}, {3, 37, 5, 0},  {1, 1000, 1, 64},    {2, 129, 16, 32},
    {7, 16, 1, 0}, {5, 17, 33, 0},  {1, 33, 1, 5},  {1, 20011, 1, 4096}, {11, 48, 64, 16},
    {2, 0, 4, 0},  {0, 5, 3, 2},    {5, 100, 0, 7}, {3, 2, 1, 1},
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static lk_reduce_axis_op op_of(const check_case *c)
{
    return (lk_reduce_axis_op)(c->index / N_SHAPES);
}

static const lk_reduce_axis_shape *shape_of(const check_case *c)
{
    return &shapes[c->index % N_SHAPES];
}

static lk_status reduce_setup(check_case *c)
{
    const lk_reduce_axis_shape *s = shape_of(c);
    lk_reduce_axis_op op = op_of(c);
    snprintf(c->label, sizeof c->label, "%s of %lldx%lldx%lld, piece %lld",
             lk_reduce_axis_op_name(op), (long long)s->outer, (long long)s->n, (long long)s->inner,
             (long long)s->piece);
    /* Products stay near 1. */
    bool prod = op == LK_REDUCE_AXIS_PROD;
    LK_TRY(check_input(c, c->dtype, s->outer * s->n * s->inner, prod ? 0.75 : -1, prod ? 1.3 : 1));
    LK_TRY(check_output(c, c->dtype, s->outer * s->inner, false));
    bool joins = s->piece > 0 && s->outer == 1 && op == LK_REDUCE_AXIS_SUM;
    c->ways = 1U << WHOLE | 1U << PARTS | (joins ? 1U << PIECES : 0);
    return LK_OK;
}

/* Each piece in a call of its own, joined by the tree. */
static lk_status push_pieces(const check_case *c, lk_tree *tree, void *piece)
{
    lk_reduce_axis_shape s = *shape_of(c);
    int64_t n = s.n, step = s.piece;
    s.piece = 0;
    for (int64_t j = 0; j < n; j += step) {
        s.n = n - j < step ? n - j : step;
        LK_TRY(lk_reduce_axis(c->dtype, op_of(c), &s,
                              check_at(c->dtype, c->in[0].data, j * s.inner), piece));
        LK_TRY(lk_tree_push(tree, piece));
    }
    return LK_OK;
}

/* What lk_reduce_axis() gives; without pieces as a box, each row of the outer axis a piece of it. */
static lk_status run_box(const check_case *c, const lk_reduce_axis_shape *s, const void *x, void *y)
{
    lk_reduce_box_shape box = {
        .samples = s->outer, .n = {1, 1, s->n}, .channels = s->inner, .piece = 1};
    if (s->piece == 0)
        LK_TRY(lk_reduce_box(c->dtype, op_of(c), &box, x, y));
    else
        LK_TRY(lk_reduce_axis(c->dtype, op_of(c), s, x, y));
    return LK_OK;
}

static lk_status reduce_run(const check_case *c, int way, void *const *out)
{
    lk_reduce_axis_shape s = *shape_of(c);
    if (way == PIECES) {
        return LK_TRACE(check_join(c, push_pieces, out[0]));
    }
    int64_t outer = s.outer;
    s.outer = way == PARTS ? outer / 3 : outer;
    LK_TRY(lk_reduce_axis(c->dtype, op_of(c), &s, c->in[0].data, out[0]));
    if (way == WHOLE)
        return LK_OK;
    const void *x = check_at(c->dtype, c->in[0].data, s.outer * s.n * s.inner);
    void *y = check_at(c->dtype, out[0], s.outer * s.inner);
    s.outer = outer - s.outer;
    return LK_TRACE(run_box(c, &s, x, y));
}

static lk_status reduce_expect(const check_case *c, check_truth *truth)
{
    truth->has_bits[0] = true;
    lk__ref_reduce_axis(c->dtype, op_of(c), shape_of(c), c->in[0].data, truth->bits[0],
                        truth->value[0]);
    return LK_OK;
}

const lk__check lk__check_reduce = {
    .name = "reduce",
    .summary = "sums, products, extrema and sums of squares by lanes, pieces and the tree",
    .n_cases = N_SHAPES * LK_N_REDUCE_AXIS_OPS,
    .ways = {"whole", "in parts", "pieces joined"},
    .setup = reduce_setup,
    .run = reduce_run,
    .expect = reduce_expect,
};
