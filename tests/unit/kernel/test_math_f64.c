/* The f64 functions on samples whose exact values are known: errors of at most 2 ulp. */
#include "data/math_f64.h"
#include "harness.h"

#include <lockstep/extra/isa.h>
#include <lockstep/extra/map.h>

enum { MAX_SAMPLES = 1000 };

/* Error of `got` in ulp, when the exact value is y + rest * ulp. */
static double ulp_error(double got, double y, double rest)
{
    if (isinf(y) || isnan(got) || isinf(got))
        return got == y ? 0 : HUGE_VAL;
    int e;
    frexp(y, &e);
    return fabs(ldexp(got - y, e - 53 < -1074 ? 1074 : 53 - e) - rest);
}

static void samples_check(lk_map1_op op, double limit, const struct math_sample *s, size_t bytes)
{
    static double x[MAX_SAMPLES], y[MAX_SAMPLES];
    int n = (int)(bytes / sizeof *s);
    double worst = 0;
    ASSERT_TRUE(n > 200 && n <= MAX_SAMPLES);
    for (int i = 0; i < n; i++)
        x[i] = s[i].x;
    ASSERT_OK(lk_map1(LK_F64, op, 1, n, x, y));
    for (int i = 0; i < n; i++) {
        double error = ulp_error(y[i], s[i].y, s[i].rest);
        if (!(error <= limit))
            TEST_FAIL("%s(%a) = %a, not %a: %.3f ulp, more than %g", lk_map1_name(op), x[i], y[i],
                      s[i].y, error, limit);
        worst = fmax(worst, error);
    }
    printf("%s: at most %.3f ulp\n", lk_map1_name(op), worst);
}

#define CHECK(op, fn, limit) samples_check(LK_MAP1_##op, limit, math_##fn, sizeof math_##fn)

TEST(functions_are_close_to_the_exact_values)
{
    CHECK(EXP, exp, 1);
    CHECK(LOG, log, 1);
    CHECK(TANH, tanh, 1.1);
    CHECK(ERF, erf, 1.5);
    CHECK(SIGMOID, sigmoid, 1.6);
    CHECK(SOFTPLUS, softplus, 1.75);
    CHECK(ELU, elu, 1);
    CHECK(GELU, gelu, 1.8);
}

/* Up to 1e308, where the reduction takes a thousand bits of pi. */
TEST(sine_and_cosine_reduce_every_argument)
{
    CHECK(SIN, sin, 1.1);
    CHECK(COS, cos, 1.1);
}

TEST(power_is_close_to_the_exact_values)
{
    static double x[MAX_SAMPLES], x2[MAX_SAMPLES], y[MAX_SAMPLES];
    int n = (int)(sizeof math_pow / sizeof math_pow[0]);
    double worst = 0;
    ASSERT_TRUE(n > 400 && n <= MAX_SAMPLES);
    for (int i = 0; i < n; i++) {
        x[i] = math_pow[i].x;
        x2[i] = math_pow[i].x2;
    }
    ASSERT_OK(lk_map2(LK_F64, LK_MAP2_POW, 0, n, x, x2, y));
    for (int i = 0; i < n; i++) {
        double error = ulp_error(y[i], math_pow[i].y, math_pow[i].rest);
        if (!(error <= 1))
            TEST_FAIL("pow(%a, %a) = %a, not %a: %.3f ulp", x[i], x2[i], y[i], math_pow[i].y,
                      error);
        worst = fmax(worst, error);
    }
    printf("pow: at most %.3f ulp\n", worst);
}
