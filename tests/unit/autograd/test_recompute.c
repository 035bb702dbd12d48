/* Segments that backward runs again: the same gradients with less memory. */
#include "tape_fixture.h"

enum { N = 1000 };

/* What a segment closes over. */
struct block {
    lk_var x, w;
    int runs, replays;
    bool changes; /* does something else the second time */
};

/* ((x w) w) x ... : five values of N elements. */
static lk_status block_run(lk_tape *tape, void *arg, lk_var *out)
{
    struct block *b = arg;
    lk_var y;
    b->runs++;
    b->replays += lk_tape_is_recomputing(tape);
    LK_TRY(lk_mul(b->x, b->w, &y));
    if (b->changes && lk_tape_is_recomputing(tape))
        LK_TRY(lk_add(y, y, &y));
    LK_TRY(lk_mul(y, b->w, &y));
    LK_TRY(lk_mul(y, b->x, &y));
    LK_TRY(lk_mul(y, y, &y));
    return LK_TRACE(lk_add(y, b->x, &out[0]));
}

/* Three blocks, one after the other; the gradients of x and w, and the memory it took. */
static int64_t three_blocks(bool recompute, unsigned flags, double *gx, double *gw)
{
    struct fixture f = fixture_new();
    struct block b[3];
    memset(b, 0, sizeof b);
    lk_var x = fixture_leaf(&f, LK_SHAPE(N), 0.5, 1e-4), w = fixture_leaf(&f, LK_SHAPE(1), 0.9, 0);
    for (int i = 0; i < 3; i++) {
        b[i].x = x;
        b[i].w = w;
        ASSERT_OK(recompute ? lk_recompute(f.tape, block_run, &b[i], 1, &x)
                            : block_run(f.tape, &b[i], &x));
    }
    fixture_backward(&f, x, flags);
    ASSERT_EQ(b[1].runs, recompute ? 2 : 1);
    ASSERT_EQ(b[1].replays, recompute ? 1 : 0);
    *gx = test_at(f.grad[0], N - 1);
    *gw = test_at(f.grad[1], 0);
    int64_t peak = lk_tape_stats_of(f.tape).peak_bytes;
    fixture_free(&f);
    return peak;
}

/* Two outputs, one of which does not lead to what is wanted. */
static lk_status two_outputs(lk_tape *tape, void *arg, lk_var *out)
{
    const struct block *b = arg;
    (void)tape;
    LK_TRY(lk_square(b->w, &out[1]));
    return LK_TRACE(lk_mul(b->x, out[1], &out[0]));
}

TEST(an_output_that_is_not_wanted_gets_no_gradient)
{
    double grad[2];
    for (int recompute = 0; recompute < 2; recompute++) {
        struct fixture f = fixture_new();
        lk_var x = fixture_leaf(&f, LK_SHAPE(1), 2, 0), w = fixture_leaf(&f, LK_SHAPE(1), 3, 0);
        lk_var out[2], sum, g;
        struct block b = {.x = x, .w = w};
        ASSERT_OK(recompute ? lk_recompute(f.tape, two_outputs, &b, 2, out)
                            : two_outputs(f.tape, &b, out));
        ASSERT_OK(lk_add(out[0], out[1], &sum));
        ASSERT_OK(lk_grad(f.tape, &sum, NULL, 1, &x, 1, LK_RECORD, &g)); /* w^2 */
        ASSERT_OK(lk_backward(f.tape, &(lk_seed){.of = g}, 1, 0));
        grad[recompute] = test_at(f.grad[1], 0);
        fixture_free(&f);
    }
    ASSERT_EQ(grad[0], 6);
    ASSERT_EQ(grad[1], 6);
}

static lk_status resets(lk_tape *tape, void *arg, lk_var *out)
{
    lk_tape_reset(tape);
    return LK_TRACE(lk_square(*(lk_var *)arg, out));
}

static lk_status makes_a_leaf(lk_tape *tape, void *arg, lk_var *out)
{
    return LK_TRACE(lk_leaf(tape, arg, NULL, out));
}

TEST(a_segment_neither_resets_nor_makes_leaves)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(1), 2, 0), y;
    ASSERT_FAILS(lk_recompute(f.tape, resets, &x, 1, &y), LK_ESTATE, "lk_tape_reset() was called");
    ASSERT_FAILS(lk_recompute(f.tape, makes_a_leaf, f.value[0], 1, &y), LK_ESTATE,
                 "a leaf inside a segment");
    ASSERT_TRUE(!lk_is_var(y));
    ASSERT_OK(lk_square(x, &y)); /* the tape is whole */
    fixture_free(&f);
}

TEST(a_segment_gives_the_same_bits_with_less_memory)
{
    double gx[2], gw[2];
    int64_t plain = three_blocks(false, 0, &gx[0], &gw[0]);
    int64_t again = three_blocks(true, 0, &gx[1], &gw[1]);
    ASSERT_SAME_BITS(&gx[0], &gx[1], sizeof(double));
    ASSERT_SAME_BITS(&gw[0], &gw[1], sizeof(double));
    ASSERT_TRUE(again < plain * 3 / 4);
    three_blocks(true, LK_RECORD, &gx[1], &gw[1]);
    ASSERT_SAME_BITS(&gx[0], &gx[1], sizeof(double));
}

/* A segment within a segment. */
static lk_status outer_run(lk_tape *tape, void *arg, lk_var *out)
{
    struct block *b = arg;
    lk_var y;
    LK_TRY(lk_recompute(tape, block_run, &b[1], 1, &y));
    return LK_TRACE(lk_mul(y, b[0].w, &out[0]));
}

TEST(segments_nest)
{
    double g[2][2];
    for (int nested = 0; nested < 2; nested++) {
        struct fixture f = fixture_new();
        lk_var x = fixture_leaf(&f, LK_SHAPE(4), 0.5, 0.1),
               w = fixture_leaf(&f, LK_SHAPE(1), 0.9, 0);
        struct block b[2] = {{.x = x, .w = w}, {.x = x, .w = w}};
        ASSERT_OK(nested ? lk_recompute(f.tape, outer_run, b, 1, &x) : outer_run(f.tape, b, &x));
        fixture_backward(&f, x, 0);
        g[nested][0] = test_at(f.grad[0], 3);
        g[nested][1] = test_at(f.grad[1], 0);
        ASSERT_EQ(b[1].runs, nested ? 3 : 2);
        fixture_free(&f);
    }
    ASSERT_SAME_BITS(g[0], g[1], sizeof g[0]);
}

TEST(second_derivatives_pass_through_a_segment)
{
    double hessian[2];
    for (int recompute = 0; recompute < 2; recompute++) {
        struct fixture f = fixture_new();
        lk_var x = fixture_leaf(&f, LK_SHAPE(1), 0.7, 0), w = fixture_leaf(&f, LK_SHAPE(1), 0.9, 0);
        lk_var y, g, gg;
        struct block b = {.x = x, .w = w};
        ASSERT_OK(recompute ? lk_recompute(f.tape, block_run, &b, 1, &y)
                            : block_run(f.tape, &b, &y));
        ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, &x, 1, LK_RECORD, &g));
        ASSERT_OK(lk_grad(f.tape, &g, NULL, 1, &w, 1, 0, &gg));
        hessian[recompute] = test_value_at(gg, 0);
        fixture_free(&f);
    }
    ASSERT_NEAR(hessian[1], 4 * 4 * pow(0.7, 3) * pow(0.9, 3), 1e-12); /* y = x^4 w^4 + x */
    ASSERT_SAME_BITS(&hessian[0], &hessian[1], sizeof(double));
}

TEST(a_segment_that_changes_is_refused)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2), 0.5, 0.1), s;
    struct block b = {.x = x, .w = x, .changes = true};
    ASSERT_OK(lk_recompute(f.tape, block_run, &b, 1, &s));
    ASSERT_OK(lk_sum_to(s, LK_SCALAR, &s));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = s}, 1, 0), LK_ESTATE,
                 "output 0 of a segment, f64[2], is not what it was");
    fixture_free(&f);
}

static lk_status gives_its_input(lk_tape *tape, void *arg, lk_var *out)
{
    (void)tape;
    out[0] = *(lk_var *)arg;
    return LK_OK;
}

static lk_status differentiates(lk_tape *tape, void *arg, lk_var *out)
{
    lk_var x = *(lk_var *)arg, y;
    LK_TRY(lk_mul(x, x, &y));
    LK_TRY(lk_sum_to(y, LK_SCALAR, &y));
    return LK_TRACE(lk_grad(tape, &y, NULL, 1, &x, 1, LK_RECORD, &out[0]));
}

TEST(misuse_is_refused)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2), 0.5, 0.1), out[5];
    ASSERT_FAILS(lk_recompute(f.tape, gives_its_input, &x, 1, out), LK_EINVAL,
                 "not a value that it computed");
    ASSERT_FAILS(lk_recompute(f.tape, gives_its_input, &x, 5, out), LK_EINVAL, "5 outputs");
    ASSERT_FAILS(lk_recompute(f.tape, differentiates, &x, 1, out), LK_ESTATE,
                 "backward inside a segment");
    ASSERT_FAILS(lk_recompute(f.tape, NULL, &x, 1, out), LK_EINVAL, "segment is NULL");
    fixture_free(&f);
}
