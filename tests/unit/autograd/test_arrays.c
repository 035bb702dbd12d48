/* The host's arrays as values: nothing is copied, and what does not fit is refused. */
#include "faults.h"
#include "tape_fixture.h"

TEST(a_leaf_on_arrays_gets_its_gradient_there)
{
    static const double x[2][3] = {{1, 2, 3}, {4, 5, 6}}; /* in memory that cannot be written */
    const double before[6] = {100, 100, 100, 100, 100, 100};
    double g[2][3], want[6];
    struct fixture f = fixture_new();
    lk_var v, y;
    memcpy(g, before, sizeof g);
    ASSERT_OK(lk_leaf_data(f.tape, LK_F64, LK_SHAPE(2, 3), x, g, &v));
    ASSERT_TRUE(lk_needs_grad(v) && lk_shape_is_equal(lk_shape_of(v), LK_SHAPE(2, 3)));
    ASSERT_OK(lk_mul(v, v, &y));
    ASSERT_OK(lk_mul(y, v, &y));
    fixture_backward(&f, y, 0);
    for (int i = 0; i < 6; i++)
        want[i] = 100 + 3.0 * (i + 1) * (i + 1);
    ASSERT_SAME_BITS(g, want, sizeof g);
    fixture_free(&f);
}

/* The array is the value: a change before the op is seen. */
TEST(nothing_is_copied)
{
    float x[3] = {1, 2, 3}, c[3] = {10, 20, 30}, y[3];
    const float want[3] = {5 * 10, 2 * 20, 3 * 7};
    struct fixture f = fixture_new();
    const lk_tensor *t = NULL;
    lk_var v, k, p;
    ASSERT_OK(lk_leaf_data(f.tape, LK_F32, LK_SHAPE(3), x, NULL, &v));
    ASSERT_OK(lk_constant_data(f.tape, LK_F32, LK_SHAPE(3), c, &k));
    ASSERT_TRUE(lk_needs_grad(v) && !lk_needs_grad(k));
    ASSERT_OK(lk_value(v, &t));
    ASSERT_TRUE(lk_tensor_data(t) == x && !lk_tensor_is_writable(t));
    ASSERT_OK(lk_value(k, &t));
    ASSERT_TRUE(lk_tensor_data(t) == c && !lk_tensor_is_writable(t));
    x[0] = 5;
    c[2] = 7;
    ASSERT_OK(lk_mul(v, k, &p));
    ASSERT_OK(lk_read(p, LK_F32, 3, y));
    ASSERT_SAME_BITS(y, want, sizeof y);
    fixture_free(&f);
}

TEST(the_reset_leaves_the_arrays_to_the_host)
{
    double *x = malloc(2 * sizeof *x), *g = malloc(2 * sizeof *g), y[2];
    struct fixture f = fixture_new();
    lk_var v = LK_NO_VAR, k = LK_NO_VAR;
    for (int step = 0; step < 3; step++) {
        lk_tape_reset(f.tape);
        x[0] = x[1] = step;
        g[0] = g[1] = 0;
        ASSERT_OK(lk_leaf_data(f.tape, LK_F64, LK_SHAPE(2), x, g, &v));
        ASSERT_OK(lk_constant_data(f.tape, LK_F64, LK_SHAPE(2), x, &k));
        ASSERT_OK(lk_mul(v, k, &v));
        fixture_backward(&f, v, 0);
        ASSERT_TRUE(g[0] == step && g[1] == step);
    }
    lk_tape_reset(f.tape);
    free(x);
    free(g);
    ASSERT_FAILS(lk_read(k, LK_F64, 2, y), LK_ESTATE, "lk_tape_reset()");
    ASSERT_FAILS(lk_read(v, LK_F64, 2, y), LK_ESTATE, "lk_tape_reset()");
    fixture_free(&f);
}

TEST(reading_follows_the_order_of_rows)
{
    int32_t x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[6], one;
    const int32_t want[6] = {1, 4, 2, 5, 3, 6};
    const int64_t live = lk_alloc_stats_now().live_blocks;
    struct fixture f = fixture_new();
    lk_var v, t, s;
    ASSERT_OK(lk_constant_data(f.tape, LK_I32, LK_SHAPE(2, 3), x, &v));
    ASSERT_OK(lk_transpose(v, 0, 1, &t));
    int64_t calls = lk_alloc_stats_now().calls;
    ASSERT_OK(lk_read(t, LK_I32, 6, y));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    ASSERT_SAME_BITS(y, want, sizeof y);
    ASSERT_OK(lk_slice(v, 0, 0, 0, 1, &s));
    ASSERT_OK(lk_read(s, LK_I32, 0, NULL));
    ASSERT_OK(lk_constant_data(f.tape, LK_I32, LK_SCALAR, &x[1][2], &s));
    ASSERT_OK(lk_read(s, LK_I32, 1, &one));
    ASSERT_EQ(one, 6);
    ASSERT_OK(lk_constant_data(f.tape, LK_F64, LK_SHAPE(0, 7), NULL, &s));
    ASSERT_OK(lk_leaf_data(f.tape, LK_F64, LK_SHAPE(0, 7), NULL, NULL, &s));
    fixture_free(&f);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
}

TEST(reading_converts_and_cuts_nothing)
{
    double x[4] = {1, 2, 3, 4}, y[5] = {7, 7, 7, 7, 7};
    const double untouched[5] = {7, 7, 7, 7, 7};
    struct fixture f = fixture_new();
    lk_var v, t, square;
    ASSERT_OK(lk_constant_data(f.tape, LK_F64, LK_SHAPE(2, 2), x, &v));
    ASSERT_FAILS(lk_read(v, LK_F32, 4, y), LK_EDTYPE, "f64[2,2] is read as f32");
    ASSERT_FAILS(lk_read(v, LK_I64, 4, y), LK_EDTYPE, "f64[2,2] is read as i64");
    ASSERT_FAILS(lk_read(v, (lk_dtype)99, 4, y), LK_EDTYPE, "read as ?");
    ASSERT_FAILS(lk_read(v, LK_F64, 5, y), LK_ESHAPE, "has 4 elements, and 5 are read");
    ASSERT_FAILS(lk_read(v, LK_F64, 3, y), LK_ESHAPE, "has 4 elements, and 3 are read");
    ASSERT_FAILS(lk_read(v, LK_F64, -1, y), LK_ESHAPE, "-1 are read");
    ASSERT_FAILS(lk_read(v, LK_F64, 4, NULL), LK_EINVAL, "NULL");
    ASSERT_FAILS(lk_read(v, LK_F64, 4, (char *)y + 1), LK_EINVAL, "not aligned");
    ASSERT_FAILS(lk_read(LK_NO_VAR, LK_F64, 4, y), LK_EINVAL, "LK_NO_VAR");
    ASSERT_SAME_BITS(y, untouched, sizeof y);
    ASSERT_OK(lk_read(v, LK_F64, 4, x)); /* itself: there is nothing to do */
    ASSERT_OK(lk_transpose(v, 0, 1, &t));
    ASSERT_FAILS(lk_read(t, LK_F64, 4, x), LK_EOVERLAP, "");
    ASSERT_OK(lk_leaf_data(f.tape, LK_F64, LK_SHAPE(2, 2), x, NULL, &v));
    ASSERT_OK(lk_square(v, &square));
    fixture_backward(&f, square, 0);
    ASSERT_FAILS(lk_read(square, LK_F64, 4, y), LK_ESTATE, "lk_retain_value()");
    ASSERT_SAME_BITS(y, untouched, sizeof y);
    fixture_free(&f);
}

static lk_status leaf_inside(lk_tape *tape, void *arg, lk_var *out)
{
    return LK_TRACE(lk_leaf_data(tape, LK_F64, LK_SHAPE(2), arg, NULL, out));
}

TEST(arrays_that_do_not_fit_are_refused)
{
    double x[4] = {1, 2, 3, 4}, g[4] = {0};
    const int64_t live = lk_alloc_stats_now().live_blocks;
    struct fixture f = fixture_new();
    lk_tape *t = f.tape;
    lk_var v;
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(2), x, g, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_leaf_data(NULL, LK_F64, LK_SHAPE(2), x, g, &v), LK_EINVAL, "tape is NULL");
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(2), NULL, g, &v), LK_EINVAL, "data is NULL");
    ASSERT_TRUE(!lk_is_var(v));
    ASSERT_FAILS(lk_leaf_data(t, LK_I64, LK_SHAPE(2), x, g, &v), LK_EDTYPE, "only f32 and f64");
    ASSERT_FAILS(lk_leaf_data(t, (lk_dtype)99, LK_SHAPE(2), x, g, &v), LK_EDTYPE, "99");
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(-2), x, g, &v), LK_EINVAL, "-2");
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(INT64_MAX, 2), x, g, &v), LK_EOVERFLOW, "");
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(2), (char *)x + 4, g, &v), LK_EINVAL, "aligned");
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(2), x, (char *)g + 1, &v), LK_EINVAL, "aligned");
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(2), x, x, &v), LK_EOVERLAP, "share elements");
    ASSERT_FAILS(lk_leaf_data(t, LK_F64, LK_SHAPE(3), x, x + 1, &v), LK_EOVERLAP, "share");
    ASSERT_OK(lk_leaf_data(t, LK_F64, LK_SHAPE(2), x, x + 2, &v)); /* side by side is fine */
    ASSERT_FAILS(lk_constant_data(t, LK_F64, LK_SHAPE(2), x, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_constant_data(NULL, LK_F64, LK_SHAPE(2), x, &v), LK_EINVAL, "tape is NULL");
    ASSERT_FAILS(lk_constant_data(t, LK_F64, LK_SHAPE(2), NULL, &v), LK_EINVAL, "data is NULL");
    ASSERT_TRUE(!lk_is_var(v));
    ASSERT_FAILS(lk_constant_data(t, (lk_dtype)99, LK_SHAPE(2), x, &v), LK_EDTYPE, "99");
    ASSERT_FAILS(lk_recompute(t, leaf_inside, x, 1, &v), LK_ESTATE, "inside a segment");
    fixture_free(&f);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
}

/* Two tensors on one array have nothing in common but the array. */
TEST(a_gradient_in_the_array_of_its_value_is_found)
{
    double x[4] = {1, 2, 3, 4};
    lk_tensor *value, *grad;
    struct fixture f = fixture_new();
    lk_var v;
    ASSERT_OK(lk_tensor_wrap(LK_F64, LK_SHAPE(3), x, NULL, NULL, &value));
    ASSERT_OK(lk_tensor_wrap(LK_F64, LK_SHAPE(3), x + 1, NULL, NULL, &grad));
    ASSERT_FAILS(lk_leaf(f.tape, value, grad, &v), LK_EOVERLAP, "share elements");
    lk_tensor_free(value);
    lk_tensor_free(grad);
    fixture_free(&f);
}

static lk_status arrays_and_back(void)
{
    lk_status st;
    double x[3] = {1, 2, 3}, c[3] = {4, 5, 6}, g[3] = {0}, y[3];
    lk_tape *tape = NULL;
    lk_var v, k, p;
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, lk_leaf_data(tape, LK_F64, LK_SHAPE(3), x, g, &v));
    LK_TRY_TO(done, lk_constant_data(tape, LK_F64, LK_SHAPE(3), c, &k));
    LK_TRY_TO(done, lk_mul(v, k, &p));
    LK_TRY_TO(done, lk_read(p, LK_F64, 3, y));
done:
    lk_tape_free(tape);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(arrays_and_back) > 6);
}
