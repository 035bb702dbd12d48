/* Writes math_f64.h, which says how: arguments and exact values of the f64 functions, computed with MPFR. */
#include <math.h>
#include <mpfr.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BITS = 1400, MAX_SAMPLES = 1000 }; /* BITS: 1e308 modulo pi takes over 1100 */

static double sample[MAX_SAMPLES], second[MAX_SAMPLES];
static int n_samples;
static mpfr_t t, u; /* for the functions below */

static uint64_t random_bits(void)
{
    static uint64_t s = 88172645463325252U;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s;
}

static double random_unit(void)
{
    return (double)(random_bits() >> 11) * 0x1p-53;
}

static void add(double x)
{
    if (n_samples < MAX_SAMPLES)
        sample[n_samples++] = x;
}

static void add_pair(double x, double y)
{
    second[n_samples] = y;
    add(x);
}

/* n arguments with exponents uniform in [low, high), of both signs if `both`. */
static void add_exponents(int n, int low, int high, int both)
{
    for (int i = 0; i < n; i++) {
        int e = low + (int)(random_unit() * (high - low));
        add(ldexp(1 + random_unit(), e) * (both && random_bits() & 1 ? -1 : 1));
    }
}

static void add_range(int n, double low, double high)
{
    for (int i = 0; i < n; i++)
        add(low + (high - low) * random_unit());
}

/* x and its neighbours. */
static void add_around(double x)
{
    add(nextafter(x, -HUGE_VAL));
    add(x);
    add(nextafter(x, HUGE_VAL));
}

static void exact_sigmoid(mpfr_t y, const mpfr_t x)
{
    mpfr_neg(t, x, MPFR_RNDN);
    mpfr_exp(t, t, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, t, MPFR_RNDN);
}

static void exact_softplus(mpfr_t y, const mpfr_t x)
{
    mpfr_exp(t, x, MPFR_RNDN);
    mpfr_log1p(y, t, MPFR_RNDN);
}

static void exact_elu(mpfr_t y, const mpfr_t x)
{
    if (mpfr_sgn(x) < 0)
        mpfr_expm1(y, x, MPFR_RNDN);
    else
        mpfr_set(y, x, MPFR_RNDN);
}

static void exact_gelu(mpfr_t y, const mpfr_t x)
{
    mpfr_sqrt_ui(t, 2, MPFR_RNDN);
    mpfr_div(t, x, t, MPFR_RNDN);
    mpfr_neg(t, t, MPFR_RNDN);
    mpfr_erfc(u, t, MPFR_RNDN);
    mpfr_mul(u, u, x, MPFR_RNDN);
    mpfr_div_ui(y, u, 2, MPFR_RNDN);
}

#define EXACT(fn)                                    \
    static void exact_##fn(mpfr_t y, const mpfr_t x) \
    {                                                \
        mpfr_##fn(y, x, MPFR_RNDN);                  \
    }
EXACT(exp)
EXACT(log)
EXACT(sin)
EXACT(cos)
EXACT(tanh)
EXACT(erf)

static void samples_exp(void)
{
    add_exponents(60, -60, 10, 1);
    add_range(60, -746, 710);
    add_range(30, -746, -708);
    add_range(60, -1, 1);
    for (int k = -40; k <= 40; k += 5)
        add_around((k + 0.5) * log(2));
    add_around(709.78271289338397);
    add_around(-745.13321910194111);
    add_around(-708.39641853226408);
}

static void samples_log(void)
{
    add_exponents(100, -1074, 1024, 0);
    add_exponents(20, -1074, -1022, 0);
    add_range(80, 0.5, 2);
    for (int k = -1; k <= 1; k++)
        add_around(ldexp(sqrt(0.5), k));
    for (int k = 2; k <= 52; k += 5) {
        add(1 - ldexp(1, -k));
        add(1 + ldexp(1, -k));
    }
}

/* Near multiples of pi/2, where all digits cancel, and the double nearest to one. */
static void samples_trig(void)
{
    mpfr_const_pi(t, MPFR_RNDN);
    for (int e = 0; e < 1020; e += 13) {
        double k = floor(ldexp(1 + random_unit(), e));
        mpfr_set_d(u, k, MPFR_RNDN);
        mpfr_mul(u, u, t, MPFR_RNDN);
        mpfr_div_ui(u, u, 2, MPFR_RNDN);
        add_around(mpfr_get_d(u, MPFR_RNDN));
    }
    add_around(6381956970095103.0 * 0x1p797);
    add_around(0x1p20);
    add_exponents(60, -1074, 1024, 1);
    add_exponents(40, 15, 30, 1);
    add_range(80, -10, 10);
    add_range(20, -1e5, 1e5);
}

/* For functions that bend near zero and are flat or straight beyond `end`. */
static void samples_bend(double end)
{
    add_exponents(50, -60, 7, 1);
    add_exponents(20, -1074, -60, 1);
    add_range(60, -1, 1);
    add_range(60, -4, 4);
    add_range(60, -end, end);
    for (int k = 1; k <= 8; k++)
        add_around((k - 0.5) * log(2) / 2);
}

static void print_sample(const mpfr_t exact, double x, const double *y)
{
    double rounded = mpfr_get_d(exact, MPFR_RNDN), rest = 0;
    if (isfinite(rounded)) {
        int e = mpfr_zero_p(exact) ? -1073 : (int)mpfr_get_exp(exact);
        mpfr_sub_d(u, exact, rounded, MPFR_RNDN);
        mpfr_mul_2si(u, u, e - 53 < -1074 ? 1074 : 53 - e, MPFR_RNDN);
        rest = mpfr_get_d(u, MPFR_RNDN);
    }
    char text[32];
    if (isinf(rounded))
        snprintf(text, sizeof text, "%sHUGE_VAL", rounded < 0 ? "-" : "");
    else
        snprintf(text, sizeof text, "%a", rounded);
    printf("    {%a, ", x);
    if (y)
        printf("%a, ", *y);
    printf("%s, %.3f},\n", text, rest);
}

static void print_table(const char *name, void (*fn)(mpfr_t, const mpfr_t))
{
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)0);
    printf("\nstatic const struct math_sample math_%s[] = {\n", name);
    for (int i = 0; i < n_samples; i++) {
        mpfr_set_d(x, sample[i], MPFR_RNDN);
        fn(y, x);
        print_sample(y, sample[i], NULL);
    }
    printf("};\n");
    n_samples = 0;
    mpfr_clears(x, y, (mpfr_ptr)0);
}

static void samples_pow(void)
{
    for (int i = 0; i < 200; i++) {
        double x = ldexp(1 + random_unit(), (int)(random_unit() * 2098) - 1074);
        add_pair(x, (2 * random_unit() - 1) * 745 / fabs(log(x)));
    }
    for (int i = 0; i < 100; i++) {
        double x = 1 + (random_unit() - 0.5) * ldexp(1, -(i % 50));
        add_pair(x, (2 * random_unit() - 1) * 745 / fabs(log(x)));
    }
    for (int i = 0; i < 50; i++)
        add_pair(-4 * random_unit(), floor(40 * random_unit()) - 20);
    for (int i = 0; i < 50; i++)
        add_pair(4 * random_unit(), 40 * random_unit() - 20);
    for (int i = 0; i < 30; i++) {
        double x = 8 * random_unit();
        add_pair(x, -(709 + 36 * random_unit()) / log(x));
    }
}

static void print_pow(void)
{
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)0);
    printf("\nstatic const struct math_sample2 math_pow[] = {\n");
    for (int i = 0; i < n_samples; i++) {
        mpfr_set_d(x, sample[i], MPFR_RNDN);
        mpfr_set_d(y, second[i], MPFR_RNDN);
        mpfr_pow(y, x, y, MPFR_RNDN);
        print_sample(y, sample[i], &second[i]);
    }
    printf("};\n");
    mpfr_clears(x, y, (mpfr_ptr)0);
}

int main(void)
{
    mpfr_inits2(BITS, t, u, (mpfr_ptr)0);
    printf(
        "/* Exact values of the f64 functions, written by math_f64_generate.c: do not edit.\n"
        " *\n"
        " * The build does not make it: MPFR, which the generator needs, is for nothing else here, "
        "and tools/setup does\n"
        " * not install it.  To make it anew (Debian: apt install libmpfr-dev), in this folder:\n"
        " *\n"
        " *     cc math_f64_generate.c -lmpfr -lgmp -lm -o generate && ./generate >math_f64.h\n"
        " *\n"
        " * y is f(x) correctly rounded, and f(x) is y + rest * ulp. */\n"
        "/* clang-format off */\n"
        "#ifndef LK_TEST_DATA_MATH_F64_H\n#define LK_TEST_DATA_MATH_F64_H\n\n"
        "#include <math.h>\n\n"
        "struct math_sample {\n    double x, y, rest;\n};\n\n"
        "struct math_sample2 {\n    double x, x2, y, rest;\n};\n");
    samples_exp();
    print_table("exp", exact_exp);
    samples_log();
    print_table("log", exact_log);
    samples_trig();
    print_table("sin", exact_sin);
    samples_trig();
    print_table("cos", exact_cos);
    samples_bend(20);
    print_table("tanh", exact_tanh);
    samples_bend(6);
    print_table("erf", exact_erf);
    samples_bend(746);
    print_table("sigmoid", exact_sigmoid);
    samples_bend(746);
    print_table("softplus", exact_softplus);
    samples_bend(40);
    print_table("elu", exact_elu);
    samples_bend(38.5);
    print_table("gelu", exact_gelu);
    samples_pow();
    print_pow();
    printf("\n#endif /* LK_TEST_DATA_MATH_F64_H */\n");
    mpfr_clears(t, u, (mpfr_ptr)0);
    mpfr_free_cache();
    return 0;
}
