/* sum, mean, max, min, prod, norm and argmax over axes. */
#include "drawn.h"
#include "op_values.h"

#include <lockstep/extra/reduce.h>

TEST(axes_are_dropped_or_kept)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 2, 3), 1, 1), y;
    ASSERT_OK(lk_sum(x, NULL, &y));
    EXPECT(y, LK_SCALAR, 78);
    ASSERT_OK(lk_sum(x, &(lk_axes){.keep = true}, &y));
    EXPECT(y, LK_SHAPE(1, 1, 1), 78);
    ASSERT_OK(lk_sum(x, LK_AXES(1), &y));
    EXPECT(y, LK_SHAPE(2, 3), 5, 7, 9, 17, 19, 21);
    ASSERT_OK(lk_sum(x, LK_AXES_KEEP(2, 0), &y));
    EXPECT(y, LK_SHAPE(1, 2, 1), 1 + 2 + 3 + 7 + 8 + 9, 4 + 5 + 6 + 10 + 11 + 12);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 10, 10, 10, 11, 11, 11, 10, 10, 10, 11, 11, 11);
    fixture_free(&f);
}

TEST(the_last_axis_has_a_name)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 2, 3), 1, 1), y;
    ASSERT_OK(lk_max(x, LK_AXES(0, LK_LAST_AXIS), &y));
    EXPECT(y, LK_SHAPE(2), 9, 12);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 11);
    fixture_free(&f);
}

/* One test for each op, on the same values: x [2,3], reduced over axis 1 and over all. */

static const double values[] = {3, -4, 1, -2, 2, 0.5};

TEST(mean_divides_the_sum)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf_of(&f, LK_F32, LK_SHAPE(2, 3), values), y;
    ASSERT_OK(lk_mean(x, LK_AXES(1), &y));
    EXPECT(y, LK_SHAPE(2), 0, (double)(0.5f / 3));
    backward_from(&f, y, 1, 1);
    const double third = (double)(1.0f / 3), two = (double)(2.0f / 3);
    EXPECT_GRAD(f.grad[0], third, third, third, two, two, two);
    x = fixture_leaf_of(&f, LK_F64, LK_SHAPE(2, 3), values);
    ASSERT_OK(lk_mean(x, NULL, &y));
    EXPECT(y, LK_SCALAR, 0.5 / 6);
    fixture_free(&f);
}

TEST(max_and_min_give_the_gradient_to_what_they_found)
{
    for (int k = 0; k < 2; k++) {
        struct fixture f = fixture_new();
        lk_dtype dtype = k ? LK_F32 : LK_F64;
        lk_var x = fixture_leaf_of(&f, dtype, LK_SHAPE(2, 3), values), y, z;
        ASSERT_OK(lk_max(x, LK_AXES(1), &y));
        ASSERT_OK(lk_min(x, LK_AXES_KEEP(1), &z));
        EXPECT(y, LK_SHAPE(2), 3, 2);
        EXPECT(z, LK_SHAPE(2, 1), -4, -2);
        backward_from(&f, y, 10, 1);
        backward_from(&f, z, 20, 1);
        EXPECT_GRAD(f.grad[0], 10, 20, 0, 21, 11, 0);
        fixture_free(&f);
    }
}

TEST(of_equal_elements_the_first_gets_the_gradient)
{
    struct fixture f = fixture_new();
    /* groups over axes 0 and 2: {1, 7, 7, 1} and {0, 0, 0, 0} */
    const double ties[] = {1, 7, 0, 0, 7, 1, 0, 0};
    lk_var x = fixture_leaf_of(&f, LK_F64, LK_SHAPE(2, 2, 2), ties), y, at;
    ASSERT_OK(lk_max(x, LK_AXES(0, 2), &y));
    ASSERT_OK(lk_argmax(x, LK_AXES(0, 2), &at));
    EXPECT(y, LK_SHAPE(2), 7, 0);
    EXPECT(at, LK_SHAPE(2), 1, 0);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 0, 10, 11, 0, 0, 0, 0, 0);
    ASSERT_OK(lk_tensor_fill_f64(f.grad[0], 0));
    ASSERT_OK(lk_min(x, LK_AXES(0, 2), &y));
    EXPECT(y, LK_SHAPE(2), 1, 0);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 10, 0, 11, 0, 0, 0, 0, 0);
    fixture_free(&f);
}

TEST(a_nan_is_the_largest_and_the_smallest)
{
    struct fixture f = fixture_new();
    const double with_nan[] = {1, 9, (double)NAN, -9, (double)NAN};
    lk_var x = fixture_leaf_of(&f, LK_F64, LK_SHAPE(5), with_nan), y, at;
    double item;
    ASSERT_OK(lk_argmax(x, NULL, &at));
    EXPECT(at, LK_SCALAR, 2);
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(k ? lk_max(x, NULL, &y) : lk_min(x, NULL, &y));
        ASSERT_OK(lk_item(y, &item));
        ASSERT_TRUE(isnan(item));
        backward_from(&f, y, 1, 0);
    }
    EXPECT_GRAD(f.grad[0], 0, 0, 2, 0, 0);
    fixture_free(&f);
}

/* Element i of x [3][150][70]: its group, when it is reduced over the axes of `bits`. */
static int64_t group_of(int64_t i, unsigned bits)
{
    const int64_t at[] = {i / (150 * 70), i / 70 % 150, i % 70}, dim[] = {3, 150, 70};
    int64_t group = 0;
    for (int d = 0; d < 3; d++)
        if (!(bits >> d & 1))
            group = group * dim[d] + at[d];
    return group;
}

/* Where the largest of each group is, or the smallest, by definition: in the group, and in x. */
static void extremes_of(const lk_tensor *x, unsigned bits, int sign, int64_t *at, int64_t *where)
{
    static int64_t n[3 * 150 * 70];
    memset(n, 0, sizeof n);
    for (int64_t i = 0; i < lk_tensor_count(x); i++) {
        int64_t group = group_of(i, bits), p = n[group]++;
        double v = sign * real_get(lk_tensor_dtype(x), lk_tensor_data(x), i);
        double best = p ? sign * real_get(lk_tensor_dtype(x), lk_tensor_data(x), where[group])
                        : (double)-INFINITY;
        if (p == 0 || v > best || (isnan(v) && !isnan(best))) {
            at[group] = p;
            where[group] = i;
        }
    }
}

TEST(extremes_of_long_groups_are_found_where_they_are)
{
    static int64_t at[3 * 150 * 70], where[3 * 150 * 70];
    for (unsigned k = 0; k < 6 * 8; k++) {
        const unsigned bits = k / 6 % 8;
        const bool nan = k % 3 == 2;
        lk_axes axes = {0};
        for (int d = 0; d < 3; d++)
            if (bits >> d & 1)
                axes.axis[axes.n++] = d;
        if (axes.n == 0)
            continue;
        struct fixture f = fixture_new();
        lk_dtype dtype = k % 2 ? LK_F32 : LK_F64;
        f.value[0] = test_drawn(lk_rng_start(k, "x", "test"), dtype, LK_SHAPE(3, 150, 70), 0);
        ASSERT_OK(lk_tensor_new(dtype, LK_SHAPE(3, 150, 70), &f.grad[0]));
        ASSERT_OK(lk_tensor_fill_f64(f.grad[0], 0));
        void *data;
        ASSERT_OK(lk_tensor_writable_data(f.value[0], &data));
        for (int64_t i = 0; i < lk_tensor_count(f.value[0]); i++) {
            double v = real_get(dtype, data, i); /* many equal ones, some -0, some NaN */
            real_set(dtype, data, i, nan && v > 0.995 ? (double)NAN : (round(v * 8) / 8));
        }
        lk_var x, y;
        ASSERT_OK(lk_leaf(f.tape, f.value[0], f.grad[0], &x));
        f.n = 1;
        ASSERT_OK(lk_argmax(x, &axes, &y));
        extremes_of(f.value[0], bits, 1, at, where);
        const lk_tensor *found;
        ASSERT_OK(lk_value(y, &found));
        ASSERT_TRUE(
            !memcmp(lk_tensor_data(found), at, (size_t)lk_tensor_count(found) * sizeof *at));
        ASSERT_OK(lk_min(x, &axes, &y));
        fixture_backward(&f, y, 0);
        extremes_of(f.value[0], bits, -1, at, where);
        for (int64_t i = 0; i < lk_tensor_count(f.value[0]); i++) {
            double expected = where[group_of(i, bits)] == i;
            ASSERT_TRUE(real_get(dtype, lk_tensor_data(f.grad[0]), i) == expected);
        }
        fixture_free(&f);
    }
}

TEST(argmax_counts_along_the_axis)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf_of(&f, LK_F32, LK_SHAPE(2, 3), values), y;
    ASSERT_OK(lk_argmax(x, LK_AXES(1), &y));
    EXPECT(y, LK_SHAPE(2), 0, 1);
    ASSERT_TRUE(lk_dtype_of(y) == LK_I64 && !lk_needs_grad(y));
    ASSERT_OK(lk_argmax(x, LK_AXES_KEEP(0), &y));
    EXPECT(y, LK_SHAPE(1, 3), 0, 1, 0);
    fixture_free(&f);
}

TEST(prod_is_right_with_zeros)
{
    struct fixture f = fixture_new();
    const double zeros[] = {2, 0, 3, 0, 5, 0, 2, 3, 4};
    lk_var x = fixture_leaf_of(&f, LK_F64, LK_SHAPE(3, 3), zeros), y;
    ASSERT_OK(lk_prod(x, LK_AXES(1), &y));
    EXPECT(y, LK_SHAPE(3), 0, 0, 24);
    backward_from(&f, y, 1, 1);
    EXPECT_GRAD(f.grad[0], 0, 6, 0, 0, 0, 0, 3 * 12, 3 * 8, 3 * 6);
    fixture_free(&f);
}

/* H v of the product of x, for a unit vector v. */
static void expect_hessian_column(struct fixture *f, lk_var x, int column, const double *expected)
{
    int64_t n = lk_shape_of(x).dim[0];
    lk_tensor *unit = test_filled(LK_SHAPE(n), 0, 0);
    lk_var y, g, v, h;
    ASSERT_OK(lk_tensor_set_f64(unit, LK_AT(column), 1));
    ASSERT_OK(lk_prod(x, NULL, &y));
    ASSERT_OK(lk_grad(f->tape, &y, NULL, 1, &x, 1, LK_RECORD, &g));
    ASSERT_OK(lk_constant(f->tape, unit, &v));
    ASSERT_OK(lk_grad(f->tape, &g, &v, 1, &x, 1, LK_RECORD, &h));
    expect_value(h, LK_SHAPE(n), expected, n);
    lk_tensor_free(unit);
}

TEST(second_derivatives_of_prod_are_right_with_zeros)
{
    struct fixture f = fixture_new();
    lk_var one = fixture_leaf_of(&f, LK_F64, LK_SHAPE(3), (double[]){2, 0, 3});
    lk_var two = fixture_leaf_of(&f, LK_F64, LK_SHAPE(4), (double[]){0, 5, 0, 7});
    expect_hessian_column(&f, one, 0, (double[]){0, 3, 0});
    expect_hessian_column(&f, one, 1, (double[]){3, 0, 2});
    expect_hessian_column(&f, two, 0, (double[]){0, 0, 35, 0});
    expect_hessian_column(&f, two, 1, (double[]){0, 0, 0, 0});
    fixture_free(&f);
}

TEST(prod_over_outer_axes_finds_its_factors)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 2, 2), 1, 1), y;
    ASSERT_OK(lk_prod(x, LK_AXES(0, 2), &y));
    EXPECT(y, LK_SHAPE(2), 1 * 2 * 5 * 6, 3 * 4 * 7 * 8);
    backward_from(&f, y, 1, 1);
    EXPECT_GRAD(f.grad[0], 60, 30, 2 * 4 * 56, 2 * 3 * 56, 12, 10, 2 * 12 * 8, 2 * 12 * 7);
    fixture_free(&f);
}

/* A tensor whose element i is first + step (i mod 13), but for some that are -0. */
static lk_tensor *factors(lk_dtype dtype, lk_shape shape, double first, double step)
{
    lk_tensor *wide = test_filled(shape, 0, 0), *out = NULL;
    for (int64_t i = 0; i < lk_tensor_count(wide); i++)
        ((double *)(uintptr_t)lk_tensor_data(wide))[i] = i % 97 == 5
                                                             ? -0.0
                                                             : first + step * (double)(i % 13);
    ASSERT_OK(lk_tensor_clone(wide, dtype, &out));
    lk_tensor_free(wide);
    return out;
}

/* The gradient of x by one op, and by those that it stands for. */
static void expect_prod_gradients(lk_dtype dtype, lk_shape shape, const lk_axes *axes)
{
    struct fixture f = fixture_new();
    for (f.n = 0; f.n < 2; f.n++) {
        lk_var v, y;
        f.value[f.n] = factors(dtype, shape, 0.7, 0.05);
        ASSERT_OK(lk_tensor_zeros(dtype, shape, &f.grad[f.n]));
        ASSERT_OK(lk_leaf_overwrite(f.tape, f.value[f.n], f.grad[f.n], &v));
        ASSERT_OK(lk_prod(v, axes, &y));
        lk_tensor *seed = factors(dtype, lk_shape_of(y), -5.1, 1);
        ASSERT_OK(lk_backward(f.tape, &(lk_seed){y, seed}, 1, f.n == 0 ? 0 : LK_RECORD));
        lk_tensor_free(seed);
    }
    if (memcmp(lk_tensor_data(f.grad[0]), lk_tensor_data(f.grad[1]),
               (size_t)lk_tensor_count(f.grad[0]) * lk_dtype_size(dtype)) != 0)
        TEST_FAIL("%s: another gradient than where it is recorded", lk_tensor_text(f.grad[0]).s);
    fixture_free(&f);
}

TEST(prod_has_the_same_gradient_where_it_is_recorded)
{
    for (int t = LK_F32; t <= LK_F64; t++) {
        expect_prod_gradients((lk_dtype)t, LK_SHAPE(700, 7), LK_AXES(1));
        expect_prod_gradients((lk_dtype)t, LK_SHAPE(3, 5, 1700), LK_AXES(1));
        expect_prod_gradients((lk_dtype)t, LK_SHAPE(13, 11, 3), LK_AXES(0, 1));
        expect_prod_gradients((lk_dtype)t, LK_SHAPE(2, 9001), LK_AXES(1));
        expect_prod_gradients((lk_dtype)t, LK_SHAPE(6001, 1, 2), LK_AXES(1));
        expect_prod_gradients((lk_dtype)t, LK_SHAPE(31, 31), NULL);
        expect_prod_gradients((lk_dtype)t, LK_SHAPE(3, 4, 5), LK_AXES(0, 2));
    }
}

TEST(norm_is_the_root_of_the_squares)
{
    struct fixture f = fixture_new();
    const double v[] = {3, -4, 0, 0, 5, 12};
    lk_var x = fixture_leaf_of(&f, LK_F32, LK_SHAPE(3, 2), v), y;
    ASSERT_OK(lk_norm(x, LK_AXES(1), &y));
    EXPECT(y, LK_SHAPE(3), 5, 0, 13);
    backward_from(&f, y, 10, 8);
    EXPECT_GRAD(f.grad[0], 6, -8, 0, 0, 10, 24); /* x dy / y: dy = 10, 18, 26 */
    fixture_free(&f);
}

TEST(norm_squares_once_over_any_axes)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 1, 2), 1, 0), s = fixture_leaf(&f, LK_SCALAR, -3, 0), y;
    ASSERT_OK(lk_reshape(x, LK_SHAPE(2, 2), &y));
    ASSERT_OK(lk_broadcast(y, LK_SHAPE(2, 2, 2), &y));
    ASSERT_OK(lk_norm(y, LK_AXES(0, 2), &y)); /* two groups of axes */
    EXPECT(y, LK_SHAPE(2), 2, 2);
    ASSERT_OK(lk_norm(s, NULL, &y));
    EXPECT(y, LK_SCALAR, 3);
    backward_from(&f, y, 1, 0);
    EXPECT_GRAD(f.grad[1], -1);
    fixture_free(&f);
}

TEST(norm_at_zero_has_zero_derivatives)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2), 0, 0), y, g, gg, v;
    ASSERT_OK(lk_norm(x, NULL, &y));
    ASSERT_OK(lk_grad(f.tape, &y, NULL, 1, &x, 1, LK_RECORD, &g));
    EXPECT(g, LK_SHAPE(2), 0, 0);
    ASSERT_OK(lk_full(f.tape, LK_F64, LK_SHAPE(2), 1, &v));
    ASSERT_OK(lk_grad(f.tape, &g, &v, 1, &x, 1, LK_RECORD, &gg));
    EXPECT(gg, LK_SHAPE(2), 0, 0);
    fixture_free(&f);
}

TEST(nothing_reduces_to_the_neutral_element)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 0), 0, 0), y[6], z;
    double item;
    ASSERT_OK(lk_sum(x, LK_AXES(1), &y[0]));
    ASSERT_OK(lk_prod(x, LK_AXES(1), &y[1]));
    ASSERT_OK(lk_norm(x, LK_AXES(1), &y[2]));
    ASSERT_OK(lk_max(x, LK_AXES(1), &y[3]));
    ASSERT_OK(lk_min(x, LK_AXES(1), &y[4]));
    ASSERT_OK(lk_mean(x, NULL, &y[5]));
    EXPECT(y[0], LK_SHAPE(2), 0, 0);
    EXPECT(y[1], LK_SHAPE(2), 1, 1);
    EXPECT(y[2], LK_SHAPE(2), 0, 0);
    EXPECT(y[3], LK_SHAPE(2), -(double)INFINITY, -(double)INFINITY);
    EXPECT(y[4], LK_SHAPE(2), (double)INFINITY, (double)INFINITY);
    ASSERT_OK(lk_item(y[5], &item));
    ASSERT_TRUE(isnan(item));
    for (int k = 0; k < 6; k++)
        backward_from(&f, y[k], 1, 0);
    ASSERT_OK(lk_max(x, LK_AXES(0), &z)); /* no group at all */
    EXPECT_EMPTY(z, LK_SHAPE(0));
    ASSERT_OK(lk_argmax(x, LK_AXES(0), &z));
    EXPECT_EMPTY(z, LK_SHAPE(0));
    ASSERT_FAILS(lk_argmax(x, LK_AXES(1), &z), LK_ESHAPE,
                 "argmax of f64[2,0]: there is no element");
    fixture_free(&f);
}

/* Products of the other axes of an empty value need not fit in 64 bits. */
TEST(nothing_may_have_huge_axes)
{
    const int64_t huge = (int64_t)1 << 62;
    struct fixture f = fixture_new();
    lk_status (*const op[])(lk_var, const lk_axes *, lk_var *) = {
        lk_sum, lk_mean, lk_max, lk_min, lk_prod, lk_norm, lk_argmax};
    lk_var x = fixture_leaf(&f, LK_SHAPE(0, huge, 4), 0, 0),
           last = fixture_leaf(&f, LK_SHAPE(huge, 2, 0), 0, 0), y;
    ASSERT_OK(lk_tape_set_shard_size(f.tape, huge - 1));
    for (int k = 0; k < LK_COUNT(op); k++) {
        ASSERT_OK(op[k](x, LK_AXES(1, 2), &y));
        EXPECT_EMPTY(y, LK_SHAPE(0));
        if (lk_needs_grad(y))
            backward_from(&f, y, 1, 0);
    }
    ASSERT_OK(lk_sum(last, LK_AXES(0, 2), &y)); /* two groups of axes */
    EXPECT(y, LK_SHAPE(2), 0, 0);
    backward_from(&f, y, 1, 0);
    ASSERT_OK(lk_prod(last, LK_AXES(0, 2), &y));
    EXPECT(y, LK_SHAPE(2), 1, 1);
    backward_from(&f, y, 1, 0);
    ASSERT_OK(lk_pad(x, &(lk_pad_attr){{0, 1}, {0, 1}, 0}, &y));
    EXPECT_EMPTY(y, LK_SHAPE(0, huge + 2, 4));
    backward_from(&f, y, 1, 0);
    fixture_free(&f);
}

TEST(a_scalar_reduces_to_itself)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SCALAR, -3, 0), y;
    lk_status (*const op[])(lk_var, const lk_axes *, lk_var *) = {lk_sum, lk_mean, lk_max, lk_min,
                                                                  lk_prod};
    for (int k = 0; k < LK_COUNT(op); k++) {
        ASSERT_OK(op[k](x, NULL, &y));
        EXPECT(y, LK_SCALAR, -3);
        backward_from(&f, y, 1, 0);
        EXPECT_GRAD(f.grad[0], k + 1);
    }
    ASSERT_OK(lk_argmax(x, NULL, &y));
    EXPECT(y, LK_SCALAR, 0);
    fixture_free(&f);
}

/* Sums over the batch are cut into the tape's pieces: as lk_reduce_axis() with pieces of elements. */
TEST(the_batch_is_summed_in_pieces)
{
    struct fixture f = fixture_new();
    enum { SAMPLES = 37, FEATURES = 3 };
    const double tenth = 0.1;
    lk_tensor *t = test_filled(LK_SHAPE(SAMPLES, FEATURES), 0.1, tenth), *narrow = NULL;
    ASSERT_OK(lk_tensor_clone(t, LK_F32, &narrow));
    lk_var x, all, mean, columns;
    ASSERT_OK(lk_constant(f.tape, narrow, &x));
    ASSERT_OK(lk_tape_set_shard_size(f.tape, 5));
    ASSERT_OK(lk_sum(x, NULL, &all));
    ASSERT_OK(lk_mean(x, NULL, &mean));
    ASSERT_OK(lk_sum(x, LK_AXES(0), &columns));
    float expected, expected_columns[FEATURES];
    lk_reduce_axis_shape whole = {1, SAMPLES * FEATURES, 1, 5 * FEATURES};
    lk_reduce_axis_shape by_column = {1, SAMPLES, FEATURES, 5};
    ASSERT_OK(
        lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &whole, lk_tensor_data(narrow), &expected));
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &by_column, lk_tensor_data(narrow),
                             expected_columns));
    EXPECT(all, LK_SCALAR, (double)expected);
    EXPECT(mean, LK_SCALAR, (double)(expected / (SAMPLES * FEATURES)));
    EXPECT(columns, LK_SHAPE(FEATURES), (double)expected_columns[0], (double)expected_columns[1],
           (double)expected_columns[2]);
    lk_tensor_free(t);
    lk_tensor_free(narrow);
    fixture_free(&f);
}

TEST(wrong_axes_and_dtypes_are_named)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 0, 1), y, s;
    ASSERT_FAILS(lk_sum(x, LK_AXES(2), &y), LK_EINVAL,
                 "sum along axis 2 of f64[2,3], whose axes are 0 to 1");
    ASSERT_TRUE(!lk_is_var(y));
    ASSERT_FAILS(lk_max(x, LK_AXES(0, -2), &y), LK_EINVAL, "max along axis -2 of f64[2,3]");
    ASSERT_FAILS(lk_max(x, LK_AXES(1, LK_LAST_AXIS), &y), LK_EINVAL, "axis 1 comes twice");
    ASSERT_OK(lk_sum(x, NULL, &s));
    ASSERT_FAILS(lk_sum(s, LK_AXES(LK_LAST_AXIS), &y), LK_EINVAL, "f64[], which has no axes");
    ASSERT_FAILS(lk_sum(s, LK_AXES(0), &y), LK_EINVAL, "f64[], which has no axes");
    ASSERT_FAILS(lk_mean(x, LK_AXES(1, 1), &y), LK_EINVAL, "mean of f64[2,3]: axis 1 comes twice");
    ASSERT_FAILS(lk_prod(x, &(lk_axes){.n = 9}, &y), LK_EINVAL, "prod of f64[2,3] along 9 axes");
    ASSERT_FAILS(lk_norm(x, &(lk_axes){.n = -1}, &y), LK_EINVAL, "along -1 axes");
    ASSERT_FAILS(lk_min(INDEX(&f, 1), NULL, &y), LK_EDTYPE, "min of i64[1]");
    ASSERT_FAILS(lk_argmax(LK_NO_VAR, NULL, &y), LK_EINVAL, "LK_NO_VAR");
    fixture_free(&f);
}

TEST(sum_to_takes_living_values_alone)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 0, 1), gone, end, y;
    ASSERT_OK(lk_sum_to(x, LK_SHAPE(2, 3), &y));
    ASSERT_TRUE(y.index == x.index);
    ASSERT_FAILS(lk_sum_to(x, LK_SHAPE(2, 3), NULL), LK_EINVAL, "out is NULL");
    ASSERT_OK(lk_square(x, &gone));
    ASSERT_OK(lk_sum(gone, NULL, &end));
    backward_from(&f, end, 1, 0);
    ASSERT_FAILS(lk_sum_to(gone, LK_SHAPE(2, 3), &y), LK_ESTATE, "");
    ASSERT_TRUE(!lk_is_var(y));
    lk_tape_reset(f.tape);
    ASSERT_FAILS(lk_sum_to(x, LK_SCALAR, &y), LK_ESTATE, "");
    fixture_free(&f);
}

static uint64_t reductions_run(void)
{
    struct fixture f = fixture_new();
    lk_hash h = lk_hash_start();
    lk_status (*const op[])(lk_var, const lk_axes *, lk_var *) = {lk_sum, lk_mean, lk_max,
                                                                  lk_min, lk_prod, lk_norm};
    const lk_axes axes[] = {{0}, {1, {1}, false}, {2, {0, 2}, true}};
    lk_var wide = fixture_leaf(&f, LK_SHAPE(61, 47, 19), 0.9, 3e-6), x[2] = {wide}, y;
    ASSERT_OK(lk_tape_set_shard_size(f.tape, 7));
    ASSERT_OK(lk_cast(wide, LK_F32, &x[1]));
    for (int k = 0; k < LK_COUNT(op); k++)
        for (int a = 0; a < LK_COUNT(axes); a++)
            for (int t = 0; t < 2; t++) {
                lk_tensor *seed = NULL;
                ASSERT_OK(op[k](x[t], &axes[a], &y));
                hash_value(&h, y);
                ASSERT_OK(lk_tensor_new(lk_dtype_of(y), lk_shape_of(y), &seed));
                ASSERT_OK(lk_tensor_fill_f64(seed, 0.3 + k));
                ASSERT_OK(lk_backward(f.tape, &(lk_seed){y, seed}, 1, LK_RETAIN_GRAPH));
                lk_tensor_free(seed);
            }
    lk_tensor_hash(f.grad[0], "", &h);
    fixture_free(&f);
    return lk_hash_value(&h);
}

TEST(threads_and_instruction_sets_do_not_matter)
{
    expect_same_bits(reductions_run);
}
