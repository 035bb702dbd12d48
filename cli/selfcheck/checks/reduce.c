/* Check of lk_reduce_axis() and lk_reduce_box(): lanes, pieces and the fixed tree, for every
 * operator. */
#include "selfcheck/check.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/reduce.h>

#include <math.h>
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

static lk_status run_pieces(const check_case *c, void *out)
{
    lk_status st;
    lk_tree *tree = NULL;
    void *piece = NULL;
    LK_TRY_TO(done, lk_tree_new(c->dtype, c->out[0].n, &tree));
    LK_TRY_TO(done, lk_alloc(&piece, c->out[0].n, lk_dtype_size(c->dtype)));
    LK_TRY_TO(done, push_pieces(c, tree, piece));
    LK_TRY_TO(done, lk_tree_finish(tree, out));
done:
    lk_tree_free(tree);
    lk_free(piece);
    return st;
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
        LK_TRY(run_pieces(c, out[0]));
        return LK_OK;
    }
    int64_t outer = s.outer;
    s.outer = way == PARTS ? outer / 3 : outer;
    LK_TRY(lk_reduce_axis(c->dtype, op_of(c), &s, c->in[0].data, out[0]));
    if (way == WHOLE)
        return LK_OK;
    const void *x = check_at(c->dtype, c->in[0].data, s.outer * s.n * s.inner);
    void *y = check_at(c->dtype, out[0], s.outer * s.inner);
    s.outer = outer - s.outer;
    LK_TRY(run_box(c, &s, x, y));
    return LK_OK;
}

/* A partial result of any operator; for sums with what it approximates. */
static check_chain neutral(lk_dtype dtype, lk_reduce_axis_op op)
{
    check_chain c = check_chain_start(dtype, 0);
    if (op == LK_REDUCE_AXIS_PROD)
        c.acc = c.hi = 1;
    if (op == LK_REDUCE_AXIS_MAX || op == LK_REDUCE_AXIS_MIN)
        c.acc = op == LK_REDUCE_AXIS_MAX ? (double)-INFINITY : (double)INFINITY;
    return c;
}

static void fold(check_chain *c, lk_reduce_axis_op op, double v)
{
    switch (op) {
    case LK_REDUCE_AXIS_SUM: check_chain_add(c, v); break;
    case LK_REDUCE_AXIS_SUMSQ: check_chain_fma(c, v, v); break;
    case LK_REDUCE_AXIS_PROD:
        c->acc = c->dtype == LK_F32 ? (double)((float)c->acc * (float)v) : c->acc * v;
        break;
    case LK_REDUCE_AXIS_MAX: c->acc = v > c->acc ? v : c->acc; break;
    default: c->acc = v < c->acc ? v : c->acc; break;
    }
}

static check_chain join(lk_reduce_axis_op op, check_chain a, check_chain b)
{
    if (op == LK_REDUCE_AXIS_SUM || op == LK_REDUCE_AXIS_SUMSQ)
        return check_chain_join(a, b);
    fold(&a, op, b.acc);
    return a;
}

static check_chain tree(lk_reduce_axis_op op, const check_chain *v, int64_t n)
{
    if (n == 1)
        return v[0];
    int64_t half = 1;
    while (2 * half < n)
        half *= 2;
    return join(op, tree(op, v, half), tree(op, v + half, n - half));
}

/* Elements [j[0], j[1]) of one column: sixteen lanes and their tree. */
static check_chain piece(const check_case *c, int64_t base, int64_t step, const int64_t j[2])
{
    check_chain lane[LK_LANES];
    for (int l = 0; l < LK_LANES; l++)
        lane[l] = neutral(c->dtype, op_of(c));
    for (int64_t q = j[0]; q < j[1]; q++)
        fold(&lane[(q - j[0]) % LK_LANES], op_of(c),
             check_get(c->dtype, c->in[0].data, base + q * step));
    return tree(op_of(c), lane, LK_LANES);
}

static void expect_one(const check_case *c, int64_t at, check_chain *buffer, check_truth *truth)
{
    const lk_reduce_axis_shape *s = shape_of(c);
    lk_reduce_axis_op op = op_of(c);
    int64_t base = at / s->inner * s->n * s->inner + at % s->inner;
    int64_t step = s->piece > 0 ? s->piece : s->n, n = 0;
    for (int64_t j = 0; j < s->n; j += step)
        buffer[n++] = piece(c, base, s->inner, (int64_t[]){j, j + step < s->n ? j + step : s->n});
    check_chain sum = n > 0 ? tree(op, buffer, n) : neutral(c->dtype, op);
    if (op == LK_REDUCE_AXIS_SUM || op == LK_REDUCE_AXIS_SUMSQ) {
        check_expect(truth, 0, at, &sum);
        return;
    }
    check_set(c->dtype, truth->bits[0], at, sum.acc);
    truth->has_bits[0] = true;
    if (op != LK_REDUCE_AXIS_PROD)
        return;
    long double product = 1;
    for (int64_t j = 0; j < s->n; j++)
        product *= (long double)check_get(c->dtype, c->in[0].data, base + j * s->inner);
    check_expect_near(truth, 0, at, c->dtype, product, (double)(s->n + 16), 0);
}

static lk_status reduce_expect(const check_case *c, check_truth *truth)
{
    check_chain *buffer;
    LK_TRY(lk_alloc(&buffer, shape_of(c)->n, sizeof *buffer));
    for (int64_t i = 0; i < c->out[0].n; i++)
        expect_one(c, i, buffer, truth);
    lk_free(buffer);
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
