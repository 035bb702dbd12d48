/* Sums, products, quotients and powers, element by element. */
#include "unit/ops/elementwise.h"

static lk_status affine(lk_var x, lk_var *out)
{
    return lk_affine(x, -3, 0.5, out);
}

TEST(each_is_its_formula)
{
    POINTS2(lk_sub, {3, 5, -2, 1, -1}, {0.5, 0.5, 0, 1, -1}, {INF, 1, INF, 1, -1});
    POINTS2(lk_div, {3, 2, 1.5, 0.5, -0.75}, {-8, 4, -2, 0.25, 0.5}, {1, INF, 0, 0, 0},
            {0, 2, 0, 0.5, 0});
    POINTS1(lk_neg, {2, -2, -1}, {0, -0.0, -1}, {-INF, INF, -1});
    POINTS1(affine, {2, -5.5, -3}, {-0.5, 2, -3}, {INF, -INF, -3});
    POINTS1(lk_square, {3, 9, 6}, {-0.5, 0.25, -1}, {0, 0, 0}, {-INF, INF, -INF});
    POINTS1(lk_abs, {3, 3, 1}, {-0.5, 0.5, -1}, {0, 0, 0}, {-0.0, 0, 0}, {-INF, INF, -1});
}

TEST(a_quotient_by_zero_is_infinite)
{
    POINTS2(lk_div, {1, 0, INF, INF, -INF}, {-1, 0, -INF, INF, INF});
}

/* ---- powers ---- */

TEST(a_power_has_both_gradients)
{
    const double log2 = 0.693147180559945309417;
    POINTS2(lk_pow, {1, 5, 1, 5, 0}, {1, -3, 1, -3, 0}, {4, 0, 1, 0, 2 * log2});
    POINTS2(lk_pow, {2, 3, 8, 12, 8 * log2}, {2, -1, 0.5, -0.25, 0.5 * log2});
}

TEST(a_power_of_zero_has_the_gradients_of_the_limit)
{
    POINTS2(lk_pow, {0, 2, 0, 0, 0}, {0, 1, 0, 1, 0}, {0, 0, 1, 0, 0}, {0, 0.5, 0, INF, 0});
}

TEST(a_negative_base_has_no_gradient_of_the_exponent)
{
    POINTS2(lk_pow, {-2, 3, -8, 12, NOT_A_NUMBER}, {-2, 2, 4, -4, NOT_A_NUMBER});
}

static lk_status power_0(lk_var x, lk_var *out)
{
    return lk_pow_scalar(x, 0, out);
}
static lk_status power_1(lk_var x, lk_var *out)
{
    return lk_pow_scalar(x, 1, out);
}
static lk_status power_2(lk_var x, lk_var *out)
{
    return lk_pow_scalar(x, 2, out);
}
static lk_status power_3(lk_var x, lk_var *out)
{
    return lk_pow_scalar(x, 3, out);
}
static lk_status power_minus_1(lk_var x, lk_var *out)
{
    return lk_pow_scalar(x, -1, out);
}
static lk_status power_half(lk_var x, lk_var *out)
{
    return lk_pow_scalar(x, 0.5, out);
}

TEST(constant_exponents_take_negative_bases)
{
    POINTS1(power_0, {-2, 1, 0}, {0, 1, 0}, {3, 1, 0});
    POINTS1(power_1, {-2, -2, 1}, {0, 0, 1}, {3, 3, 1});
    POINTS1(power_2, {-1.5, 2.25, -3}, {0, 0, 0}, {3, 9, 6});
    POINTS1(power_3, {-2, -8, 12}, {0, 0, 0}, {4, 64, 48});
    POINTS1(power_minus_1, {-2, -0.5, -0.25}, {4, 0.25, -0.0625}, {0, INF, -INF});
    POINTS1(power_half, {4, 2, 0.25}, {0, 0, INF}, {-1, NOT_A_NUMBER, NOT_A_NUMBER});
}

/* ---- shapes ---- */

TEST(operands_broadcast_and_gradients_are_summed)
{
    lk_tape *tape;
    lk_tensor *x = tensor_of(LK_F64, LK_SHAPE(2, 1, 3), (double[]){1, 2, 3, 4, 5, 6});
    lk_tensor *y = tensor_of(LK_F64, LK_SHAPE(2, 1), (double[]){1, 2});
    lk_tensor *dx, *dy;
    lk_var vx, vy, z, sum;
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(2, 1, 3), &dx));
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(2, 1), &dy));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf(tape, x, dx, &vx));
    ASSERT_OK(lk_leaf(tape, y, dy, &vy));
    ASSERT_OK(lk_div(vx, vy, &z));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(z), LK_SHAPE(2, 2, 3)));
    static const double want[] = {1, 2, 3, 0.5, 1, 1.5, 4, 5, 6, 2, 2.5, 3};
    for (int i = 0; i < 12; i++)
        ASSERT_TRUE(var_at(z, i) == want[i]);
    ASSERT_OK(lk_sum_to(z, LK_SCALAR, &sum));
    ASSERT_OK(lk_backward(tape, &(lk_seed){.of = sum}, 1, 0));
    for (int i = 0; i < 6; i++)
        ASSERT_TRUE(tensor_at(dx, i) == 1.5);
    ASSERT_TRUE(tensor_at(dy, 0) == -21 && tensor_at(dy, 1) == -21 / 4.0);
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_tensor_free(y);
    lk_tensor_free(dx);
    lk_tensor_free(dy);
}

TEST(empty_and_scalar_values_work)
{
    lk_tape *tape;
    lk_var none, one, z;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(3, 0), 1, &none));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SCALAR, 3, &one));
    ASSERT_OK(lk_sub(none, one, &z));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(z), LK_SHAPE(3, 0)));
    ASSERT_OK(lk_exp(none, &z));
    ASSERT_OK(lk_pow(one, one, &z));
    ASSERT_TRUE(lk_shape_is_equal(lk_shape_of(z), LK_SCALAR));
    ASSERT_TRUE(var_at(z, 0) == 27);
    lk_tape_free(tape);
}

/* ---- misuse ---- */

TEST(what_does_not_fit_is_refused)
{
    lk_tape *tape;
    lk_tensor *index;
    lk_var a, b, c, i, z;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(2), &index));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 3), 1, &a));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2), 1, &b));
    ASSERT_OK(lk_full(tape, LK_F64, LK_SHAPE(2, 3), 1, &c));
    ASSERT_OK(lk_constant(tape, index, &i));
    ASSERT_FAILS(lk_sub(a, b, &z), LK_ESHAPE, "sub of shapes [2,3] and [2]");
    ASSERT_TRUE(!lk_is_var(z));
    ASSERT_FAILS(lk_div(a, c, &z), LK_EDTYPE, "div of f32[2,3] and f64[2,3]");
    ASSERT_FAILS(lk_square(i, &z), LK_EDTYPE, "square of i64[2]");
    ASSERT_FAILS(lk_neg(LK_NO_VAR, &z), LK_EINVAL, "LK_NO_VAR");
    ASSERT_FAILS(lk_pow_scalar(a, NOT_A_NUMBER, &z), LK_EINVAL, "f32[2,3] with exponent nan");
    ASSERT_FAILS(lk_affine(a, INF, 0, &z), LK_EINVAL, "scale inf and shift 0");
    /* Finite as f64, but not when they are rounded to f32. */
    ASSERT_FAILS(lk_affine(a, 1e300, 0, &z), LK_EINVAL, "f32[2,3] with scale 1e+300 and shift 0");
    ASSERT_FAILS(lk_affine(a, 1, -1e39, &z), LK_EINVAL, "shift -1e+39");
    ASSERT_FAILS(lk_pow_scalar(a, 1e39, &z), LK_EINVAL,
                 "pow_scalar of f32[2,3] with exponent 1e+39");
    ASSERT_FAILS(lk_leaky_relu(a, 1e39, &z), LK_EINVAL, "leaky_relu of f32[2,3] with slope 1e+39");
    ASSERT_FAILS(lk_elu(a, 1e39, &z), LK_EINVAL, "elu of f32[2,3] with alpha 1e+39");
    ASSERT_OK(lk_affine(c, 1e300, 0, &z));
    lk_tape_free(tape);
    lk_tensor_free(index);
}

/* A changed input is found where backward would read it, and only there. */
static lk_status change_between(binary_fn *f, int changed)
{
    lk_tape *tape;
    lk_tensor *x[2];
    lk_var v[2], z;
    ASSERT_OK(lk_tape_new(&tape));
    for (int k = 0; k < 2; k++) {
        x[k] = tensor_of(LK_F64, LK_SHAPE(1), (double[]){2});
        ASSERT_OK(lk_leaf(tape, x[k], NULL, &v[k]));
    }
    ASSERT_OK(f(v[0], v[1], &z));
    ASSERT_OK(lk_tensor_fill_f64(x[changed], 3));
    lk_status st = lk_backward(tape, &(lk_seed){.of = z}, 1, 0);
    lk_tape_free(tape);
    lk_tensor_free(x[0]);
    lk_tensor_free(x[1]);
    return st;
}

TEST(only_what_backward_reads_must_stay)
{
    ASSERT_OK(change_between(lk_sub, 1));
    ASSERT_OK(change_between(lk_div, 0));
    ASSERT_FAILS(change_between(lk_div, 1), LK_ESTATE, "input 1 of div #0");
    ASSERT_FAILS(change_between(lk_pow, 0), LK_ESTATE, "input 0 of pow #0");
    ASSERT_FAILS(change_between(lk_maximum, 1), LK_ESTATE, "input 1 of maximum #0");
}
