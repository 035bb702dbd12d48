/* max_pool, avg_pool and l2_pool: values, gradients and second derivatives. */
#include "kernel/reference/reference.h"
#include "op_program.h"
#include "tape_fixture.h"

typedef enum kind { MAX, AVG, L2, N_KINDS } kind;

static lk_status pool(kind k, lk_var x, const lk_pool_attr *a, lk_var *y, lk_var *index)
{
    *index = LK_NO_VAR;
    if (k == MAX)
        return lk_max_pool(x, a, y, index);
    return k == AVG ? lk_avg_pool(x, a, y) : lk_l2_pool(x, a, y);
}

static void expect(const lk_tensor *t, int64_t n, const double *values)
{
    ASSERT_EQ(lk_tensor_count(t), n);
    for (int64_t i = 0; i < n; i++)
        if (!real_same(tensor_at(t, i), values[i]))
            TEST_FAIL("element %lld is %g, not %g", (long long)i, tensor_at(t, i), values[i]);
}

#define EXPECT(t, ...) \
    expect(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static void expect_index(lk_var v, int64_t n, const int64_t *values)
{
    const lk_tensor *t = value_of(v);
    ASSERT_TRUE(lk_tensor_dtype(t) == LK_I64);
    ASSERT_EQ(lk_tensor_count(t), n);
    ASSERT_SAME_BITS(lk_tensor_data(t), values, n * 8);
}

#define EXPECT_INDEX(v, ...) \
    expect_index(v, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

/* Lines of one channel, n values in all. */
static lk_var lines(struct program *p, int64_t batch, int64_t n, const double *values)
{
    lk_tensor *t = program_tensor(p, LK_SHAPE(batch, n / batch, 1), 1);
    for (int64_t i = 0; i < n; i++)
        ASSERT_OK(lk_tensor_set_f64(t, LK_AT(i / (n / batch), i % (n / batch), 0), values[i]));
    return program_own(p, t);
}

#define LINES(p, batch, ...) \
    lines(p, batch, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})
#define LINE(p, ...) LINES(p, 1, __VA_ARGS__)

/* Backward with a seed of 1, 2, 3, ... */
static void backward(struct program *p, lk_var y)
{
    p->seed = program_tensor(p, lk_shape_of(y), 1);
    for (int64_t i = 0; i < lk_tensor_count(p->seed); i++)
        ASSERT_OK(lk_tensor_set_f64(p->seed, LK_AT(0, i, 0), (double)(i + 1)));
    ASSERT_OK(lk_backward(p->tape, &(lk_seed){y, p->seed}, 1, LK_RETAIN_GRAPH));
}

/* Gradients that are set, over what was there, have the bits of those that are added to zeros. */
TEST(gradients_are_set_as_they_are_added)
{
    const lk_pool_attr attr[] = {{.window = {.kernel = {2, 2}, .stride = {2, 2}}},
                                 {.window = {.kernel = {3, 2}, .pad_lo = {1, 1}}}};
    for (int k = 0; k < 6; k++) {
        struct fixture f = fixture_new();
        for (f.n = 0; f.n < 2; f.n++) {
            lk_var v, y;
            lk_tensor *seed = NULL;
            f.value[f.n] = test_filled(LK_SHAPE(2, 5, 7, 3), -4, 0.25);
            f.grad[f.n] = test_filled(LK_SHAPE(2, 5, 7, 3), 0, f.n);
            ASSERT_OK(f.n ? lk_leaf_overwrite(f.tape, f.value[f.n], f.grad[f.n], &v)
                          : lk_leaf(f.tape, f.value[f.n], f.grad[f.n], &v));
            ASSERT_OK(k < 2   ? lk_avg_pool(v, &attr[k % 2], &y)
                      : k < 4 ? lk_max_pool(v, &attr[k % 2], &y, NULL)
                              : lk_relu_max_pool(v, &attr[k % 2], &y));
            seed = test_filled(lk_shape_of(y), -3, 0.5);
            ((double *)(uintptr_t)lk_tensor_data(seed))[6] = -0.0;
            ASSERT_OK(lk_backward(f.tape, &(lk_seed){y, seed}, 1, 0));
            lk_tensor_free(seed);
        }
        ASSERT_SAME_BITS(lk_tensor_data(f.grad[1]), lk_tensor_data(f.grad[0]),
                         (size_t)lk_tensor_count(f.grad[0]) * sizeof(double));
        fixture_free(&f);
    }
}

TEST(max_takes_the_first_of_the_largest)
{
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype = (lk_dtype)(dtype + 1)) {
        struct program p = program_new(dtype, true);
        lk_var x = LINE(&p, 1, 7, 7, 3, (double)NAN, 2), y, index;
        ASSERT_OK(lk_max_pool(x, &(lk_pool_attr){.window.kernel = {2}}, &y, &index));
        EXPECT(value_of(y), 7, 7, 7, (double)NAN, (double)NAN);
        EXPECT_INDEX(index, 1, 1, 2, 4, 4);
        backward(&p, y);
        EXPECT(p.grad[0], 0, 3, 3, 0, 9, 0);
        ASSERT_TRUE(!lk_needs_grad(index));
        program_free(&p);
    }
}

TEST(a_window_of_padding_alone_gives_nothing_back)
{
    struct program p = program_new(LK_F32, true);
    const lk_pool_attr a = {
        .window.kernel = {2}, .window.stride = {2}, .window.pad_lo = {3}, .window.pad_hi = {2}};
    lk_var x = LINE(&p, 3, 4), y[N_KINDS], index;
    ASSERT_OK(lk_max_pool(x, &a, &y[MAX], &index));
    EXPECT(value_of(y[MAX]), -HUGE_VAL, 3, 4);
    EXPECT_INDEX(index, -1, 0, 1);
    ASSERT_OK(lk_avg_pool(x, &a, &y[AVG]));
    EXPECT(value_of(y[AVG]), 0, 3, 4);
    ASSERT_OK(lk_l2_pool(x, &a, &y[L2]));
    EXPECT(value_of(y[L2]), 0, 3, 4);
    backward(&p, y[MAX]);
    EXPECT(p.grad[0], 2, 3);
    program_free(&p);
}

TEST(avg_divides_by_the_valid_positions_or_by_all)
{
    struct program p = program_new(LK_F64, true);
    lk_pool_attr a = {.window.kernel = {2}, .window.pad_lo = {1}};
    lk_var x = LINE(&p, 2, 4, 8), y;
    ASSERT_OK(lk_avg_pool(x, &a, &y));
    EXPECT(value_of(y), 2, 3, 6);
    backward(&p, y);
    EXPECT(p.grad[0], 2, 2.5, 1.5);
    lk_tensor_free(p.seed);
    ASSERT_OK(lk_tensor_fill_f64(p.grad[0], 0));
    a.count_padding = true;
    ASSERT_OK(lk_avg_pool(x, &a, &y));
    EXPECT(value_of(y), 1, 3, 6);
    backward(&p, y);
    EXPECT(p.grad[0], 1.5, 2.5, 1.5);
    program_free(&p);
}

TEST(l2_of_a_window_of_zeros_has_gradient_zero)
{
    for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype = (lk_dtype)(dtype + 1)) {
        struct program p = program_new(dtype, true);
        lk_var x = LINE(&p, 3, 4, 0, 0, -5, 12), seed = LINE(&p, 65, 65, 65), y, dx, again[2];
        ASSERT_OK(lk_l2_pool(x, &(lk_pool_attr){.window.kernel = {2}, .window.stride = {2}}, &y));
        EXPECT(value_of(y), 5, 0, 13);
        ASSERT_OK(lk_grad(p.tape, &y, &seed, 1, &x, 1, LK_RECORD, &dx));
        EXPECT(value_of(dx), 39, 52, 0, 0, -25, 60);
        ASSERT_OK(lk_mul(dx, dx, &dx)); /* the second derivatives are finite, too */
        ASSERT_OK(lk_sum_to(dx, LK_SCALAR, &dx));
        ASSERT_OK(lk_grad(p.tape, &dx, NULL, 1, (lk_var[]){x, seed}, 2, LK_RECORD, again));
        for (int64_t i = 0; i < 6; i++)
            ASSERT_NEAR(value_at(again[0], i), 0, 1e-3); /* |dx| is the seed wherever x points */
        for (int64_t i = 0; i < 3; i++)
            ASSERT_NEAR(value_at(again[1], i), i == 1 ? 0 : 130, 1e-3);
        program_free(&p);
    }
}

/* The gradient of a gradient with respect to its seed is what forward does to it, linearly. */
/* -0 is given; adding it to zeros gives +0.  The last element is in no window. */
TEST(a_gradient_of_nothing_sets_a_leaf_to_zero)
{
    const float x[] = {1, 3, 5, 7, 2}, dy[] = {-0.0F, -0.0F}, zeros[5] = {0};
    const lk_pool_attr attr = {.window = {.kernel = {2}, .stride = {2}}};
    for (int max = 0; max < 2; max++) {
        float dx[] = {9, 9, 9, 9, 9};
        lk_tensor *value = NULL, *grad = NULL, *seed = NULL;
        lk_tape *tape = NULL;
        lk_var v, y;
        ASSERT_OK(lk_tape_new(&tape));
        ASSERT_OK(lk_tensor_wrap_const(LK_F32, LK_SHAPE(1, 5, 1), x, NULL, NULL, &value));
        ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(1, 5, 1), dx, NULL, NULL, &grad));
        ASSERT_OK(lk_tensor_wrap_const(LK_F32, LK_SHAPE(1, 2, 1), dy, NULL, NULL, &seed));
        ASSERT_OK(lk_leaf_overwrite(tape, value, grad, &v));
        ASSERT_OK(max ? lk_max_pool(v, &attr, &y, NULL) : lk_avg_pool(v, &attr, &y));
        ASSERT_OK(lk_backward(tape, &(lk_seed){y, seed}, 1, 0));
        ASSERT_EQ(memcmp(dx, zeros, sizeof dx), 0);
        lk_tape_free(tape);
        lk_tensor_free(value);
        lk_tensor_free(grad);
        lk_tensor_free(seed);
    }
}

TEST(the_gradient_of_the_scatter_is_the_gather)
{
    struct program p = program_new(LK_F64, true);
    lk_var x = LINES(&p, 2, 1, 9, 2, 3, 5, 4), seed = LINES(&p, 2, 10, 20, 30, 40, 50, 60, 70, 80),
           g = LINES(&p, 2, 5, 6, 7, 8, 9, 11), y, index, dx, back, one, again;
    ASSERT_OK(
        lk_max_pool(x, &(lk_pool_attr){.window.kernel = {2}, .window.pad_lo = {2}}, &y, &index));
    EXPECT_INDEX(index, -1, 0, 1, 1, -1, 0, 1, 1);
    ASSERT_OK(lk_grad(p.tape, &y, &seed, 1, &x, 1, LK_RECORD, &dx));
    EXPECT(value_of(dx), 20, 70, 0, 60, 150, 0);
    ASSERT_OK(lk_grad(p.tape, &dx, &g, 1, &seed, 1, LK_RECORD, &back));
    EXPECT(value_of(back), 0, 5, 6, 6, 0, 8, 9, 9);
    ASSERT_OK(lk_full(p.tape, LK_F64, LK_SHAPE(2, 4, 1), 1, &one));
    ASSERT_OK(lk_grad(p.tape, &back, &one, 1, &g, 1, 0, &again)); /* and once more */
    EXPECT(value_of(again), 1, 2, 0, 1, 2, 0);
    program_free(&p);
}

struct pool_case {
    lk_shape x;
    lk_pool_attr attr;
};

static const struct pool_case cases[] = {
    {LK_DIMS(2, 7, 3), {.window.kernel = {3}}},
    {LK_DIMS(1, 6, 1),
     {.window.kernel = {2}, .window.stride = {3}, .window.pad_lo = {1}, .window.pad_hi = {1}}},
    {LK_DIMS(3, 5, 4, 2),
     {.window.kernel = {2, 3},
      .window.stride = {2, 1},
      .window.pad_lo = {0, 2},
      .window.pad_hi = {1, 0}}},
    {LK_DIMS(2, 6, 6, 17),
     {.window.kernel = {3, 3}, .window.stride = {2, 2}, .window.pad_lo = {1, 1}}},
    {LK_DIMS(2, 3, 4, 5, 2),
     {.window.kernel = {2, 2, 3}, .window.stride = {1, 2, 2}, .window.pad_hi = {1, 0, 1}}},
    {LK_DIMS(1, 1, 1), {.window.kernel = {1}}},
};

static void expect_definition(const struct pool_case *c, const struct program *p, kind k, lk_var y,
                              lk_var index)
{
    int ndim = c->x.ndim - 2;
    lk_shape out = lk_shape_of(y);
    lk_pool_shape s = {.dtype = p->dtype,
                       .window.ndim = ndim,
                       .batch = c->x.dim[0],
                       .channels = c->x.dim[ndim + 1],
                       .count_padding = c->attr.count_padding};
    for (int d = 0; d < ndim; d++) {
        s.in[d] = c->x.dim[d + 1];
        s.out[d] = out.dim[d + 1];
        s.window.kernel[d] = c->attr.window.kernel[d];
        s.window.stride[d] = c->attr.window.stride[d];
        s.window.pad_lo[d] = c->attr.window.pad_lo[d];
    }
    const lk_tensor *got = value_of(y), *grad = p->grad[0];
    const void *x = lk_tensor_data(p->value[0]), *dy = lk_tensor_data(p->seed);
    const int64_t n_y = lk_tensor_count(got), n_x = lk_tensor_count(grad);
    void *want = calloc((size_t)n_y, 8), *dx = calloc((size_t)n_x, 8);
    int64_t *at = calloc((size_t)n_y, sizeof *at);
    ASSERT_TRUE(want && dx && at);
    if (k == MAX) {
        lk__ref_pool_max(&s, x, want, at, NULL);
        lk__ref_pool_max_backward(&s, dy, at, dx, NULL);
        ASSERT_SAME_BITS(lk_tensor_data(value_of(index)), at, n_y * 8);
    } else if (k == AVG) {
        lk__ref_pool_avg(&s, x, want, NULL);
        lk__ref_pool_avg_backward(&s, dy, dx, NULL);
    } else {
        lk__ref_pool_l2(&s, x, want, NULL);
        lk__ref_pool_l2_backward(&s, x, want, dy, dx, NULL);
    }
    ASSERT_EQ(real_differ(s.dtype, want, lk_tensor_data(got), n_y), n_y);
    for (int64_t i = 0; i < n_x; i++)
        ASSERT_TRUE(tensor_at(grad, i) == real_get(s.dtype, dx, i));
    free(want);
    free(dx);
    free(at);
}

TEST(values_and_gradients_have_the_bits_of_their_definition)
{
    for (int i = 0; i < LK_COUNT(cases) * 2 * N_KINDS; i++) {
        const struct pool_case *c = &cases[i / (2 * N_KINDS)];
        kind k = (kind)(i / 2 % N_KINDS);
        struct program p = program_new(i % 2 ? LK_F32 : LK_F64, false);
        lk_var x = program_leaf(&p, c->x), y, index;
        ASSERT_OK(pool(k, x, &c->attr, &y, &index));
        program_backward(&p, y, LK_RETAIN_GRAPH);
        expect_definition(c, &p, k, y, index);
        program_free(&p);
    }
}

TEST(an_empty_batch_works)
{
    const lk_pool_attr a = {.window.kernel = {2}};
    for (int k = 0; k < N_KINDS; k++) {
        struct program p = program_new(LK_F32, false);
        lk_var x = program_leaf(&p, LK_SHAPE(0, 3, 2)), none = program_leaf(&p, LK_SHAPE(2, 0, 2)),
               y, index;
        ASSERT_OK(pool((kind)k, x, &a, &y, &index));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(0, 2, 2)));
        program_backward(&p, y, 0);
        ASSERT_OK(pool((kind)k, none, &a, &y, &index));
        ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(y), LK_SHAPE(2, 0, 2)));
        program_backward(&p, y, 0);
        program_free(&p);
    }
}

TEST(what_does_not_fit_is_refused)
{
    struct program p = program_new(LK_F32, false);
    lk_var x = program_leaf(&p, LK_SHAPE(2, 4, 3, 1)), matrix = program_leaf(&p, LK_SHAPE(2, 4)), y;
    ASSERT_FAILS(lk_avg_pool(x, &(lk_pool_attr){.window.kernel = {2, 4}}, &y), LK_ESHAPE,
                 "avg_pool of f32[2,4,3,1]: along spatial axis 1 a kernel of 4");
    ASSERT_FAILS(lk_l2_pool(x, &(lk_pool_attr){.window.kernel = {2}}, &y), LK_EINVAL,
                 "kernel is 0");
    ASSERT_FAILS(lk_max_pool(matrix, &(lk_pool_attr){.window.kernel = {2}}, &y, NULL), LK_ESHAPE,
                 "max_pool of f32[2,4]: needs [batch, 1 to 3 spatial axes, channels]");
    ASSERT_FAILS(lk_max_pool(x, NULL, &y, NULL), LK_EINVAL, "max_pool needs attributes");
    ASSERT_TRUE(!lk_is_var(y));
    program_free(&p);
}

static void three_pools(struct program *p, lk_var *y)
{
    const lk_pool_attr a = {
        .window.kernel = {3, 2}, .window.stride = {2, 1}, .window.pad_lo = {1, 0}};
    lk_var x = program_leaf(p, LK_SHAPE(4, 24, 20, 33));
    ASSERT_OK(lk_max_pool(x, &a, y, NULL));
    ASSERT_OK(lk_l2_pool(*y, &a, y));
    ASSERT_OK(lk_avg_pool(*y, &a, y));
}

TEST(the_bits_are_the_same_everywhere)
{
    test_same_bits_everywhere(three_pools);
}
