/* Zeros, infinities, NaN and the ends of the range: the value that mathematics or the C standard
 * asks for, its sign included. */
#include "harness.h"

#include <lockstep/extra/map.h>

#include <string.h>

#define INF HUGE_VAL

static bool same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static void map1_check(lk_map1_op op, double x, double want)
{
    float f = (float)x;
    double d = x;
    ASSERT_OK(lk_map1(LK_F32, op, 0.5, 1, &f, &f));
    ASSERT_OK(lk_map1(LK_F64, op, 0.5, 1, &d, &d));
    if (!same((double)f, (double)(float)want) || !same(d, want))
        TEST_FAIL("%s(%g) is %g in f32 and %g in f64, not %g", lk_map1_name(op), x, (double)f, d,
                  want);
}

TEST(functions_of_one_argument_know_their_limits)
{
    static const struct {
        lk_map1_op op;
        double minus_inf, minus_zero, zero, inf;
    } limits[] = {
        {LK_MAP1_COPY, -INF, -0.0, 0.0, INF},
        {LK_MAP1_NEG, INF, 0.0, -0.0, -INF},
        {LK_MAP1_ABS, INF, 0.0, 0.0, INF},
        {LK_MAP1_SQUARE, INF, 0.0, 0.0, INF},
        {LK_MAP1_SQRT, (double)NAN, -0.0, 0.0, INF},
        {LK_MAP1_RECIP, -0.0, -INF, INF, 0.0},
        {LK_MAP1_EXP, 0.0, 1, 1, INF},
        {LK_MAP1_LOG, (double)NAN, -INF, -INF, INF},
        {LK_MAP1_SIN, (double)NAN, -0.0, 0.0, (double)NAN},
        {LK_MAP1_COS, (double)NAN, 1, 1, (double)NAN},
        {LK_MAP1_TANH, -1, -0.0, 0.0, 1},
        {LK_MAP1_ERF, -1, -0.0, 0.0, 1},
        {LK_MAP1_SIGMOID, 0.0, 0.5, 0.5, 1},
        {LK_MAP1_SOFTPLUS, 0.0, M_LN2, M_LN2, INF},
        {LK_MAP1_RELU, 0.0, -0.0, 0.0, INF},
        {LK_MAP1_LEAKY_RELU, -INF, -0.0, 0.0, INF},
        {LK_MAP1_ELU, -0.5, -0.0, 0.0, INF},
        {LK_MAP1_GELU, -0.0, -0.0, 0.0, INF},
        {LK_MAP1_SCALE, -INF, -0.0, 0.0, INF},
        {LK_MAP1_SHIFT, -INF, 0.5, 0.5, INF},
    };
    ASSERT_EQ(sizeof limits / sizeof limits[0], LK_N_MAP1);
    for (int i = 0; i < LK_N_MAP1; i++) {
        map1_check(limits[i].op, -INF, limits[i].minus_inf);
        map1_check(limits[i].op, -0.0, limits[i].minus_zero);
        map1_check(limits[i].op, 0.0, limits[i].zero);
        map1_check(limits[i].op, INF, limits[i].inf);
        map1_check(limits[i].op, (double)NAN, (double)NAN);
    }
    map1_check(LK_MAP1_LOG, -1, (double)NAN);
    map1_check(LK_MAP1_LOG, 1, 0.0);
    map1_check(LK_MAP1_SQRT, -1, (double)NAN);
}

/* f(x) of f64, and of f32 with another argument. */
static void ends_check(lk_map1_op op, double x, double want, float x_f32, float want_f32)
{
    ASSERT_OK(lk_map1(LK_F64, op, 1, 1, &x, &x));
    ASSERT_OK(lk_map1(LK_F32, op, 1, 1, &x_f32, &x_f32));
    if (!same(x, want) || !same((double)x_f32, (double)want_f32))
        TEST_FAIL("%s: %a, not %a, or %a, not %a", lk_map1_name(op), x, want, (double)x_f32,
                  (double)want_f32);
}

TEST(the_ends_of_the_range_are_reached)
{
    ends_check(LK_MAP1_EXP, 0x1.62e42fefa39efp+9, 0x1.fffffffffff2ap+1023, 0x1.62e42ep+6F,
               0x1.ffff08p+127F);
    ends_check(LK_MAP1_EXP, 0x1.62e42fefa39f0p+9, INF, 0x1.62e430p+6F, INFINITY);
    ends_check(LK_MAP1_EXP, -0x1.74910d52d3051p+9, 0x1p-1074, -0x1.9fe368p+6F, 0x1p-149F);
    ends_check(LK_MAP1_EXP, -0x1.74910d52d3052p+9, 0.0, -0x1.9fe36ap+6F, 0.0F);
    ends_check(LK_MAP1_LOG, 0x1p-1074, -0x1.74385446d71c3p+9, 0x1p-149F, -0x1.9d1dap+6F);
    ends_check(LK_MAP1_LOG, 0x1.fffffffffffffp1023, 0x1.62e42fefa39efp+9, 0x1.fffffep127F,
               0x1.62e43p+6F);
    /* A denormal comes out as it is where the function starts like x. */
    static const lk_map1_op straight[] = {LK_MAP1_SIN, LK_MAP1_TANH, LK_MAP1_ELU};
    for (int i = 0; i < 3; i++) {
        ends_check(straight[i], 0x1p-1074, 0x1p-1074, 0x1p-149F, 0x1p-149F);
        ends_check(straight[i], -0x1.8p-1040, -0x1.8p-1040, -0x1.8p-140F, -0x1.8p-140F);
    }
    ends_check(LK_MAP1_SIGMOID, -745, 0x1p-1074, -103.9F, 0x1p-149F);
    ends_check(LK_MAP1_SOFTPLUS, -745, 0x1p-1074, -103.9F, 0x1p-149F);
    ends_check(LK_MAP1_ELU, -800, -1, -200, -1);
    ends_check(LK_MAP1_SOFTPLUS, 1e300, 1e300, 1e30F, 1e30F);
    ends_check(LK_MAP1_GELU, -1e300, -0.0, -1e30F, -0.0F);
}

/* The double that comes closest to a multiple of pi/2: its cosine has 61 leading zero bits. */
TEST(the_worst_argument_of_cosine_is_reduced)
{
    ends_check(LK_MAP1_COS, 0x1.6ac5b262ca1ffp+849, -0x1.14ae72e6ba22fp-61, 0x1.ddebdep+120F,
               (float)cos(0x1.ddebdep+120));
}

static void pow_check(double x, double y, double want)
{
    float f, a = (float)x, b = (float)y;
    double d;
    ASSERT_OK(lk_map2(LK_F32, LK_MAP2_POW, 0, 1, &a, &b, &f));
    ASSERT_OK(lk_map2(LK_F64, LK_MAP2_POW, 0, 1, &x, &y, &d));
    if (!same((double)f, want) || !same(d, want))
        TEST_FAIL("pow(%g, %g) is %g in f32 and %g in f64, not %g", x, y, (double)f, d, want);
}

/* Annex F of the C standard, line by line. */
TEST(power_follows_the_c_standard)
{
    static const double any[] = {-INF, -2.5, -2, -1,  -0.5, -0.0,       0.0,
                                 0.5,  1,    2,  3.5, INF,  (double)NAN};
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        pow_check(any[i], 0.0, 1);
        pow_check(any[i], -0.0, 1);
        pow_check(1, any[i], 1);
        if (any[i] != 0)
            pow_check((double)NAN, any[i], (double)NAN);
        if (any[i] != 1)
            pow_check(any[i], (double)NAN, any[i] == 1 ? 1 : (double)NAN);
    }
    static const struct {
        double x, y, want;
    } rules[] = {
        {0.0, -3, INF},    {-0.0, -3, -INF},   {0.0, -2, INF},         {-0.0, -2, INF},
        {-0.0, -2.5, INF}, {0.0, -INF, INF},   {-0.0, -INF, INF},      {0.0, 3, 0.0},
        {-0.0, 3, -0.0},   {-0.0, 2, 0.0},     {-0.0, 2.5, 0.0},       {0.0, INF, 0.0},
        {-1, INF, 1},      {-1, -INF, 1},      {-2, 0.5, (double)NAN}, {-2, -1.5, (double)NAN},
        {0.5, -INF, INF},  {-0.5, -INF, INF},  {2, -INF, 0.0},         {-2, -INF, 0.0},
        {0.5, INF, 0.0},   {-0.5, INF, 0.0},   {2, INF, INF},          {-2, INF, INF},
        {-INF, -3, -0.0},  {-INF, -2, 0.0},    {-INF, -2.5, 0.0},      {-INF, 3, -INF},
        {-INF, 2, INF},    {-INF, 2.5, INF},   {INF, -1, 0.0},         {INF, 0.5, INF},
        {-2, 3, -8},       {-2, 4, 16},        {-2, -1, -0.5},         {9, 0.5, 3},
        {0.0, 0.125, 0.0}, {0.0, -0.125, INF}, {-1, 0x1p23, 1},        {-1, 8388609, -1},
        {-1, 0x1p60, 1},   {2, 2000, INF},     {-2, 2001, -INF},       {2, -2000, 0.0},
        {-2, -2001, -0.0}, {10, 5, 1e5},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        pow_check(rules[i].x, rules[i].y, rules[i].want);
    double x = -1, odd = 0x1p53 - 1, got;
    ASSERT_OK(lk_map2(LK_F64, LK_MAP2_POW, 0, 1, &x, &odd, &got));
    ASSERT_TRUE(got == -1);
}

TEST(largest_and_smallest_see_nan_and_prefer_the_first)
{
    static const double x[] = {1, (double)NAN, 1, 0.0, -0.0, -INF};
    static const double y[] = {2, 1, (double)NAN, -0.0, 0.0, INF};
    static const double larger[] = {2, (double)NAN, (double)NAN, 0.0, -0.0, INF};
    static const double smaller[] = {1, (double)NAN, (double)NAN, 0.0, -0.0, -INF};
    for (int op = LK_MAP2_MAX; op <= LK_MAP2_MIN; op++)
        for (int i = 0; i < 6; i++) {
            float f, a = (float)x[i], b = (float)y[i];
            double d, want = op == LK_MAP2_MAX ? larger[i] : smaller[i];
            ASSERT_OK(lk_map2(LK_F32, (lk_map2_op)op, 0, 1, &a, &b, &f));
            ASSERT_OK(lk_map2(LK_F64, (lk_map2_op)op, 0, 1, &x[i], &y[i], &d));
            ASSERT_TRUE(same((double)f, want) && same(d, want));
        }
}
