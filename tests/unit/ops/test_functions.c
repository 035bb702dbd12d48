/* Functions and activations of one argument: values, slopes, limits and kinks. */
#include "unit/ops/elementwise.h"

/* ---- limits, exact ---- */

TEST(functions_have_their_limits)
{
    POINTS1(lk_exp, {0, 1, 1}, {-INF, 0, 0}, {INF, INF, INF},
            {NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER});
    POINTS1(lk_log, {1, 0, 1}, {0, -INF, INF}, {-4, NOT_A_NUMBER, -0.25}, {INF, INF, 0});
    POINTS1(lk_sqrt, {4, 2, 0.25}, {0, 0, INF}, {INF, INF, 0}, {0.25, 0.5, 1});
    POINTS1(lk_sin, {0, 0, 1}, {-0.0, -0.0, 1}, {INF, NOT_A_NUMBER, NOT_A_NUMBER});
    POINTS1(lk_cos, {0, 1, 0}, {-INF, NOT_A_NUMBER, NOT_A_NUMBER});
    POINTS1(lk_erf, {0, 0, 1.1283791670955126}, {INF, 1, 0}, {-INF, -1, 0});
    POINTS1(lk_tanh, {0, 0, 1}, {INF, 1, 0}, {-INF, -1, 0},
            {NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER});
    POINTS1(lk_sigmoid, {0, 0.5, 0.25}, {INF, 1, 0}, {-INF, 0, 0},
            {NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER});
    POINTS1(lk_softplus, {INF, INF, 1}, {-INF, 0, 0}, {NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER});
    POINTS1(lk_gelu, {0, 0, 0.5}, {INF, INF, 1}, {-INF, -0.0, 0}, {1e20, 1e20, 1},
            {1e-38, 5e-39, 0.5}, {NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER});
}

static lk_status leaky_relu(lk_var x, lk_var *out)
{
    return lk_leaky_relu(x, 0.25, out);
}

static lk_status falling_relu(lk_var x, lk_var *out)
{
    return lk_leaky_relu(x, -2, out);
}

static lk_status elu(lk_var x, lk_var *out)
{
    return lk_elu(x, 0.5, out);
}

TEST(a_kink_has_the_slope_of_its_left)
{
    POINTS1(lk_relu, {2, 2, 1}, {-2, 0, 0}, {0, 0, 0}, {1e-30, 1e-30, 1}, {-INF, 0, 0},
            {INF, INF, 1});
    POINTS1(leaky_relu, {2, 2, 1}, {-2, -0.5, 0.25}, {0, 0, 0.25}, {-INF, -INF, 0.25});
    POINTS1(falling_relu, {2, 2, 1}, {-2, 4, -2}, {0, 0, -2});
    POINTS1(elu, {2, 2, 1}, {0, 0, 0.5}, {-INF, -0.5, 0}, {INF, INF, 1});
}

TEST(a_function_of_nan_is_nan)
{
    static unary_fn *const f[] = {lk_relu, leaky_relu, elu,     lk_abs, lk_sqrt, lk_log,
                                  lk_sin,  lk_cos,     lk_gelu, lk_erf, lk_neg,  lk_square};
    for (size_t k = 0; k < sizeof f / sizeof f[0]; k++) {
        struct run1 r = run1_new(LK_F32, f[k], LK_SHAPE(1), (double[]){NOT_A_NUMBER});
        ASSERT_TRUE(isnan(var_at(r.y, 0)));
        run1_free(&r);
    }
}

/* ---- in between: close to the truth, small slopes too ---- */

static long double log_slope(long double x)
{
    return 1 / x;
}

static long double sqrt_slope(long double x)
{
    return 1 / (2 * sqrtl(x));
}

static long double erf_slope(long double x)
{
    return 2 / sqrtl(acosl(-1)) * expl(-x * x);
}

static long double tanh_slope(long double x)
{
    return 1 / (coshl(x) * coshl(x));
}

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

static long double sigmoid_slope(long double x)
{
    return sigmoid(x) * sigmoid(-x);
}

static long double softplus(long double x)
{
    return log1pl(expl(x));
}

static long double half_elu(long double x)
{
    return x < 0 ? expm1l(x) / 2 : x;
}

static long double half_elu_slope(long double x)
{
    return x < 0 ? expl(x) / 2 : 1;
}

static long double gelu(long double x)
{
    return x * erfcl(-x / sqrtl(2)) / 2;
}

static long double gelu_slope(long double x)
{
    return erfcl(-x / sqrtl(2)) / 2 + x * expl(-x * x / 2) / sqrtl(2 * acosl(-1));
}

TEST(values_and_slopes_are_close_to_the_truth)
{
    grid_check(lk_exp, expl, expl, -20, 20, 4);
    grid_check(lk_log, logl, log_slope, 1.1, 30, 4);
    grid_check(lk_sqrt, sqrtl, sqrt_slope, 0.01, 30, 4);
    grid_check(lk_erf, erfl, erf_slope, -3, 3, 20); /* e^ of a rounded square */
    grid_check(lk_tanh, tanhl, tanh_slope, -1, 1, 10);
    grid_check(lk_sigmoid, sigmoid, sigmoid_slope, -20, 1, 10);
    grid_check(lk_softplus, softplus, sigmoid, -20, 20, 4);
    grid_check(elu, half_elu, half_elu_slope, -20, 2, 4);
    grid_check(lk_gelu, gelu, gelu_slope, -0.4, 6, 10);
    grid_check(lk_gelu, gelu, gelu_slope, -6, -1.2, 60);
}

static long double minus_sinl(long double x)
{
    return -sinl(x);
}

TEST(sine_and_cosine_turn_into_each_other)
{
    grid_check(lk_sin, sinl, cosl, 0.3, 1.2, 4);
    grid_check(lk_cos, cosl, minus_sinl, 2, 2.8, 4);
}

/* The slope is kept for a gradient alone, and is a value of its own: its bend is gelu's second
 * derivative. */
TEST(gelu_is_the_same_with_and_without_its_slope)
{
    enum { N = 1201 };
    lk_tape *tape;
    lk_var constant, leaf, y, z, slope, bend;
    float x[N], apart[N], with[N];
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) / 64;
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(N), x, &constant));
    ASSERT_OK(lk_leaf_data(tape, LK_F32, LK_SHAPE(N), x, NULL, &leaf));
    ASSERT_OK(lk_gelu(constant, &y));
    ASSERT_OK(lk_gelu(leaf, &z));
    ASSERT_OK(lk_read(y, LK_F32, N, apart));
    ASSERT_OK(lk_read(z, LK_F32, N, with));
    ASSERT_EQ(memcmp(apart, with, sizeof apart), 0);
    ASSERT_OK(lk_sum(z, NULL, &z));
    ASSERT_OK(lk_grad(tape, &z, NULL, 1, &leaf, 1, LK_RECORD, &slope));
    ASSERT_OK(lk_sum(slope, NULL, &slope));
    ASSERT_OK(lk_grad(tape, &slope, NULL, 1, &leaf, 1, 0, &bend));
    ASSERT_OK(lk_read(bend, LK_F32, N, with));
    for (int i = 0; i < N; i++) {
        double v = (double)x[i], f = exp(-v * v / 2) / sqrt(2 * 3.14159265358979323846);
        ASSERT_NEAR(with[i], (2 - v * v) * f, 1e-6);
    }
    lk_tape_free(tape);
}

TEST(parameters_must_be_finite)
{
    lk_tape *tape;
    lk_var x, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2), 1, &x));
    ASSERT_FAILS(lk_leaky_relu(x, INF, &y), LK_EINVAL, "leaky_relu of f32[2] with slope inf");
    ASSERT_FAILS(lk_elu(x, NOT_A_NUMBER, &y), LK_EINVAL, "elu of f32[2] with alpha nan");
    ASSERT_TRUE(!lk_is_var(y));
    lk_tape_free(tape);
}
