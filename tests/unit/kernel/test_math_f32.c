/* The f32 functions at every 997th of all arguments, against libm in double.  (The test
 * of tests/long takes every argument.) */
#include "harness.h"
#include "math_reference.h"

enum { STEP = 997, CHUNK = 4096 };

static void chunk_check(const struct reference *f, const float *x, int n)
{
    static float y[CHUNK];
    ASSERT_OK(lk_map1(LK_F32, f->op, 1, n, x, y));
    for (int i = 0; i < n; i++) {
        double exact = f->fn((double)x[i]), error = ulp_error_f32(y[i], exact);
        if (!(error <= f->limit))
            TEST_FAIL("%s(%a) = %a, not %a: %.3f ulp, more than %g", lk_map1_name(f->op),
                      (double)x[i], (double)y[i], exact, error, f->limit);
    }
}

/* Every pattern from `first` to `last` whose distance from `first` divides by `step`. */
static void patterns_check(const struct reference *f, uint32_t first, uint32_t last, uint32_t step)
{
    static float x[CHUNK];
    int n = 0;
    for (uint64_t u = first; u <= last; u += step) {
        x[n++] = f32_of_bits((uint32_t)u);
        if (n == CHUNK || last - u < step) {
            chunk_check(f, x, n);
            n = 0;
        }
    }
}

static void references_check(lk_map1_op first, lk_map1_op last)
{
    for (int i = 0; i < N_REFERENCES; i++)
        if (references[i].op >= first && references[i].op <= last)
            patterns_check(&references[i], 0, 0xffffffff, STEP);
}

TEST(exp_and_log_are_within_the_limit)
{
    references_check(LK_MAP1_EXP, LK_MAP1_LOG);
}

TEST(sine_and_cosine_are_within_the_limit)
{
    references_check(LK_MAP1_SIN, LK_MAP1_COS);
}

TEST(tanh_erf_and_sigmoid_are_within_the_limit)
{
    references_check(LK_MAP1_TANH, LK_MAP1_SIGMOID);
}

TEST(softplus_elu_and_gelu_are_within_the_limit)
{
    references_check(LK_MAP1_SOFTPLUS, LK_MAP1_GELU);
}

/* Zeros, denormals, infinities and NaN, and numbers next to each power of two. */
TEST(special_patterns_are_within_the_limit)
{
    for (int i = 0; i < N_REFERENCES; i++)
        for (uint32_t sign = 0; sign < 2; sign++)
            for (uint32_t exponent = 0; exponent < 256; exponent++) {
                uint32_t base = sign << 31 | exponent << 23;
                patterns_check(&references[i], base, base + 7, 1);
                patterns_check(&references[i], base + 0x7ffff8, base + 0x7fffff, 1);
                patterns_check(&references[i], base + 0x3504f0, base + 0x3504f7, 1);
            }
}

/* Between neighbours by no more than two ulp less, which errors of one ulp each explain. */
TEST(rising_functions_rise)
{
    static float x[CHUNK], y[CHUNK];
    for (int i = 0; i < N_REFERENCES; i++) {
        const struct reference *f = &references[i];
        if (!f->rises)
            continue;
        for (uint32_t base = 0x30000000; base < 0x43000000; base += 0x00345678) {
            for (int sign = 0; sign < 2; sign++) {
                for (int k = 0; k < CHUNK; k++)
                    x[k] = sign ? -f32_of_bits(base + CHUNK - (uint32_t)k)
                                : f32_of_bits(base + (uint32_t)k);
                ASSERT_OK(lk_map1(LK_F32, f->op, 1, CHUNK, x, y));
                for (int k = 1; k < CHUNK && !isnan(y[k]); k++)
                    if (!(nextafterf(nextafterf(y[k], INFINITY), INFINITY) >= y[k - 1]))
                        TEST_FAIL("%s falls from %a to %a at %a", lk_map1_name(f->op),
                                  (double)y[k - 1], (double)y[k], (double)x[k]);
                ASSERT_TRUE(isnan(y[0]) || y[CHUNK - 1] >= y[0]);
            }
        }
    }
}

/* Powers of 16 bases of every exponent with exponents that lead anywhere. */
TEST(power_is_close_to_the_exact_values)
{
    enum { N = 16 * 255 };
    static float x[N], y[N], z[N];
    static const double logs[] = {-103.9, -95, -88, -60, -10, -1, -1e-3, 1e-6, 0.3, 2, 20, 88.7};
    for (size_t k = 0; k < sizeof logs / sizeof logs[0]; k++) {
        for (uint32_t i = 0; i < N; i++) {
            x[i] = f32_of_bits((i / 16) << 23 | i % 16 * 0x7ffff | 1);
            y[i] = (float)(logs[k] / log((double)x[i]));
        }
        ASSERT_OK(lk_map2(LK_F32, LK_MAP2_POW, 0, N, x, y, z));
        for (int i = 0; i < N; i++) {
            double exact = pow((double)x[i], (double)y[i]);
            if (!(ulp_error_f32(z[i], exact) <= 0.6))
                TEST_FAIL("pow(%a, %a) = %a, not %a", (double)x[i], (double)y[i], (double)z[i],
                          exact);
        }
    }
}
