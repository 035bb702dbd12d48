/* The loops of element-wise ops: formulas, and the same bits on every instruction set, for every cut,
 * in place and at the end of a page. */
#include "guard.h"
#include "harness.h"
#include "kernel/loops.h"
#include "real.h"

#include <lockstep/thread.h>

enum { N = 6011 }; /* no multiple of anything */

/* Of each loop: its name, how many inputs it has, and the type of the first if it is not y's. */
enum { SAME = -1, OTHER_REAL = -2 };
#define FIRST_REAL OTHER_REAL
#define FIRST_float LK_F32
#define FIRST_double LK_F64
#define FIRST_int32_t LK_I32
#define FIRST_int64_t LK_I64
#define FIRST_uint8_t LK_U8
#define FIRST_uint16_t LK_BF16
static const struct {
    const char *name;
    int n_in, first;
} loops[] = {
#define X(code, name, formula) [LK__LOOP_##code] = {#code, 1, SAME},
    LK_MAP1_MAP(X)
#undef X
#define X(code, name, formula) [LK__LOOP_##code] = {#code, 2, SAME},
        LK_MAP2_MAP(X)
#undef X
#define X(code, n_in, ...) [LK__LOOP_##code] = {#code, n_in, SAME},
            LK__LOOP_MOVE_MAP(X) LK__LOOP_MAP(X) LK__LOOP_POWER_MAP(X) LK__LOOP_PAIR_MAP(X)
#undef X
#define X(code, type, n_in, expr) [LK__LOOP_##code] = {#code, n_in, FIRST_##type},
                LK__LOOP_TYPED_MAP(X)
#undef X
};
_Static_assert(sizeof loops / sizeof *loops == LK_N_LOOPS, "one row for each loop");

/* Row k is an input; elements of any type.  Second outputs lie behind the first. */
static double inputs[LK_LOOP_MAX_IN][N + 8], want[2 * N], got[2 * N];

static bool has_two(int loop)
{
#define X(code, n_in, expr) || loop == LK__LOOP_##code
    return false LK__LOOP_PAIR_MAP(X);
#undef X
}

static void *second_of(lk_dtype t, void *out)
{
    return (char *)out + N * lk_dtype_size(t);
}

static lk_dtype type_of(lk_dtype y, int loop, int input)
{
    if (input > 0 || loops[loop].first == SAME)
        return y;
    if (loops[loop].first == OTHER_REAL)
        return y == LK_F32 ? LK_F64 : LK_F32;
    return (lk_dtype)loops[loop].first;
}

static void element_set(lk_dtype t, void *p, int i, double v)
{
    uint32_t bits;
    float f = (float)v;
    memcpy(&bits, &f, sizeof bits);
    switch (t) {
    case LK_I32: ((int32_t *)p)[i] = v == 0 || isnan(v) ? 0 : INT32_MIN; break;
    case LK_I64: ((int64_t *)p)[i] = v == 0 || isnan(v) ? 0 : INT64_C(1) << 40; break;
    case LK_U8: ((uint8_t *)p)[i] = v == 0 || isnan(v) ? 0 : 128; break;
    case LK_BF16: ((uint16_t *)p)[i] = (uint16_t)(bits >> 16); break;
    default: real_set(t, p, i, v); break;
    }
}

/* All pairs of numbers where something happens, then others of every size. */
static void inputs_fill(lk_dtype y, int loop)
{
    static const double at[] = {
        0, 5e-324, 1e-310, 1e-45, 1e-39, 1e-31, 1e-30, 1e-10, 0.25, 0.75,  1,        1.5,        2,
        3, 18,     40,     41,    88.5,  104.5, 745,   1e10,  3e38, 1e300, HUGE_VAL, (double)NAN};
    enum { M = 2 * sizeof at / sizeof *at };
    uint64_t state = 1;
    for (int k = 0; k < loops[loop].n_in; k++)
        for (int i = 0; i < N; i++) {
            int place = (k == 0 ? i : k == 1 ? i / M : 7 * i + i / 97) % M;
            double v = place % 2 ? -at[place / 2] : at[place / 2];
            if (i >= M * M)
                v = ldexp((double)real_random(&state) * 0x1p-30 - 1, i % 3 ? 3 : i % 200 - 100);
            element_set(type_of(y, loop, k), inputs[k], i, v);
        }
}

static void loop_run_to(lk_dtype t, int loop, int first, int n, void *out, void *second)
{
    const lk__loops_table *table;
    size_t at = (size_t)first * lk_dtype_size(t);
    lk__operands o = {.n = n,
                      .y = (char *)out + at,
                      .z = has_two(loop) ? (char *)second + at : NULL,
                      .p = {0.1, 0.75}}; /* the first is no float */
    for (int k = 0; k < loops[loop].n_in; k++)
        o.x[k] = (const char *)inputs[k] + (size_t)first * lk_dtype_size(type_of(t, loop, k));
    ASSERT_OK(lk__loops_get(&table));
    table->of[t][loop](&o);
}

static void loop_run(lk_dtype t, int loop, int first, int n, void *out)
{
    loop_run_to(t, loop, first, n, out, second_of(t, out));
}

/* NaN has many patterns, and which one comes out is not promised. */
static void nan_unify(lk_dtype t, void *p)
{
    for (int i = 0; i < 2 * N; i++)
        if (isnan(real_get(t, p, i)))
            real_set(t, p, i, (double)NAN);
}

static void bits_check(lk_dtype t, int loop, const char *what, int number)
{
    nan_unify(t, got);
    if (memcmp(got, want, (has_two(loop) ? 2 * N : (size_t)N) * lk_dtype_size(t)) != 0)
        TEST_FAIL("%s %s: %s %d gives other bits", lk_dtype_name(t), loops[loop].name, what,
                  number);
}

/* Call `check` for each type and loop, with `want` from the scalar code. */
static void every_loop(void (*check)(lk_dtype t, int loop))
{
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int t = LK_F32; t <= LK_F64; t++)
        for (int loop = 0; loop < LK_N_LOOPS; loop++) {
            inputs_fill((lk_dtype)t, loop);
            ASSERT_OK(lk_isa_set(LK_ISA_SCALAR));
            loop_run((lk_dtype)t, loop, 0, N, want);
            nan_unify((lk_dtype)t, want);
            for (int isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa++)
                if (lk_isa_is_available((lk_isa)isa)) {
                    ASSERT_OK(lk_isa_set((lk_isa)isa));
                    check((lk_dtype)t, loop);
                }
            ASSERT_OK(lk_isa_set(best));
        }
}

/* At once, and in parts that begin anywhere and have any length. */
static void parts_check(lk_dtype t, int loop)
{
    loop_run(t, loop, 0, N, got);
    bits_check(t, loop, "cut at", 0);
    for (int cut = 1; cut < 40; cut++) {
        memset(got, 0, sizeof got);
        loop_run(t, loop, 0, cut, got);
        loop_run(t, loop, cut, 3 * cut, got);
        loop_run(t, loop, 4 * cut, N - 4 * cut, got);
        bits_check(t, loop, "cut at", cut);
    }
}

TEST(every_loop_gives_the_same_bits_everywhere)
{
    every_loop(parts_check);
}

static void in_place_check(lk_dtype t, int loop)
{
    static double kept[N];
    for (int k = 0; k < loops[loop].n_in; k++) {
        if (type_of(t, loop, k) != t)
            continue;
        memcpy(kept, inputs[k], sizeof kept);
        loop_run_to(t, loop, 0, N, inputs[k], second_of(t, got));
        memcpy(got, inputs[k], N * lk_dtype_size(t));
        memcpy(inputs[k], kept, sizeof kept);
        bits_check(t, loop, "in place of input", k);
    }
}

TEST(a_loop_may_write_over_an_input)
{
    every_loop(in_place_check);
}

/* 0 + what there is otherwise: of -0 that is 0. */
static void first_check(lk_dtype t, int loop)
{
    static double plain[N];
    const lk__loops_table *table;
    lk__operands o = {.n = N, .y = got, .p = {0.1, 0.75}, .first = true};
    if (has_two(loop)) /* for whose outputs there is no such store */
        return;
    for (int k = 0; k < loops[loop].n_in; k++)
        o.x[k] = inputs[k];
    ASSERT_OK(lk__loops_get(&table));
    table->of[t][loop](&o);
    memcpy(plain, want, sizeof plain);
    for (int i = 0; i < N; i++)
        if (real_get(t, want, i) == 0)
            real_set(t, want, i, 0);
    bits_check(t, loop, "added to 0, element", 0);
    memcpy(want, plain, sizeof plain);
}

TEST(a_first_gradient_has_the_bits_of_adding_to_zeros)
{
    every_loop(first_check);
}

/* What is handed on is handed on bit by bit, also a NaN that signals. */
static void signals_check(lk_dtype t, int loop)
{
    enum { MANY = 40 };
    const uint32_t f32 = 0xffa00001U;
    const uint64_t f64 = UINT64_C(0xfff4000000000001);
    const lk__loops_table *table;
    static double nans[MANY], ones[MANY];
    const bool where = loop == LK__LOOP_WHERE_F64;
    lk__operands o = {.n = MANY, .x = {where ? ones : nans, where ? nans : ones, ones}, .y = got};
    if (!where && loop != LK__LOOP_COPY && loop != LK__LOOP_RELU_GRAD && loop != LK__LOOP_MAX)
        return;
    for (int i = 0; i < MANY; i++) {
        if (t == LK_F32)
            memcpy((float *)nans + i, &f32, sizeof f32);
        else
            memcpy(nans + i, &f64, sizeof f64);
        real_set(where ? LK_F64 : t, ones, i, 1);
    }
    ASSERT_OK(lk__loops_get(&table));
    table->of[t][loop](&o);
    if (memcmp(got, nans, MANY * lk_dtype_size(t)) != 0)
        TEST_FAIL("%s %s: a signalling NaN has become another", lk_dtype_name(t), loops[loop].name);
}

TEST(what_is_handed_on_keeps_every_bit)
{
    every_loop(signals_check);
}

static void at_the_end_of_a_page(lk_dtype t, int loop)
{
    const lk__loops_table *table;
    ASSERT_OK(lk__loops_get(&table));
    for (int n = 1; n <= 40; n++) {
        struct guard x[LK_LOOP_MAX_IN] = {{0}}, y = guard_new((size_t)n * lk_dtype_size(t));
        struct guard z = guard_new((size_t)n * lk_dtype_size(t));
        lk__operands o = {.n = n, .y = y.data, .z = z.data};
        for (int k = 0; k < loops[loop].n_in; k++) {
            size_t bytes = (size_t)n * lk_dtype_size(type_of(t, loop, k));
            x[k] = guard_new(bytes);
            memcpy(x[k].data, inputs[k], bytes);
            o.x[k] = x[k].data;
        }
        table->of[t][loop](&o);
        for (int k = 0; k < loops[loop].n_in; k++)
            guard_free(&x[k]);
        guard_free(&y);
        guard_free(&z);
    }
}

TEST(nothing_beyond_the_operands_is_touched)
{
    every_loop(at_the_end_of_a_page);
}

/* ---- what the formulas of the ops say, case by case, on numbers of the type ---- */

static double map1_of(lk_dtype t, lk_map1_op op, double x)
{
    double in = 0, out = 0;
    real_set(t, &in, 0, x);
    ASSERT_OK(lk_map1(t, op, 0, 1, &in, &out));
    return real_get(t, &out, 0);
}

static double pow_of(lk_dtype t, double x, double y)
{
    double a = 0, b = 0, out = 0;
    real_set(t, &a, 0, x);
    real_set(t, &b, 0, y);
    ASSERT_OK(lk_map2(t, LK_MAP2_POW, 0, 1, &a, &b, &out));
    return real_get(t, &out, 0);
}

static double rounded(lk_dtype t, double v)
{
    return t == LK_F32 ? (double)(float)v : v;
}

#define R(v) rounded(t, v)

/* Each operation on floats, done in double and rounded, is the same: double has more than twice as
 * many digits. */
static double formula(lk_dtype t, int loop, const double *x, double p, double q)
{
    double a = x[0], b = x[1], c = x[2], d;
    switch (loop) {
    case LK__LOOP_FILL: return p;
    case LK__LOOP_AFFINE: return R(R(p * a) + q);
    case LK__LOOP_OVER: return R(a / p);
    case LK__LOOP_RATIO:
        if (b == 0)
            return 0;
        return R(R(p * a) / b);
    case LK__LOOP_NEG_MUL: return -R(a * b);
    case LK__LOOP_ADD_RELU: return R(a + b) < 0 ? 0 : R(a + b);
    case LK__LOOP_ADD_SIGMOID: return map1_of(t, LK_MAP1_SIGMOID, R(a + b));
    case LK__LOOP_ADD_TANH: return map1_of(t, LK_MAP1_TANH, R(a + b));
    case LK__LOOP_PICK_ABOVE: return b > c ? a : 0;
    case LK__LOOP_PICK_OTHERS: return b > c ? 0 : a;
    case LK__LOOP_CLIP:
        if (a < p)
            return p;
        return a > q ? q : a;
    case LK__LOOP_CLIP_GRAD:
        if (b >= p && b <= q)
            return a;
        return 0;
    case LK__LOOP_ABS_GRAD:
        if (b > 0)
            return a - 0;
        return b < 0 ? 0 - a : 0;
    case LK__LOOP_SQUARE_GRAD: return R(2 * R(a * b));
    case LK__LOOP_SQRT_GRAD: return R(a / R(b + b));
    case LK__LOOP_RELU_GRAD: return b > 0 ? a : 0;
    case LK__LOOP_LEAKY_RELU_GRAD: return b > 0 ? a : R(a * p);
    case LK__LOOP_ELU_GRAD: return b > 0 ? a : R(a * R(p * map1_of(t, LK_MAP1_EXP, b)));
    case LK__LOOP_ELU_BEND: return b > 0 ? a * 0 : R(a * R(p * map1_of(t, LK_MAP1_EXP, b)));
    case LK__LOOP_SIGMOID_GRAD: return R(a * R(b * R(1 - b)));
    case LK__LOOP_TANH_GRAD: return R(a * R(1 - R(b * b)));
    case LK__LOOP_SOFTPLUS_GRAD: return R(a * map1_of(t, LK_MAP1_SIGMOID, b));
    case LK__LOOP_ERF_GRAD:
        return R(a * R(R(1.1283791670955126) * map1_of(t, LK_MAP1_EXP, -R(b * b))));
    case LK__LOOP_POW_DX: return R(a * R(c * (c == 0 ? 0 : pow_of(t, b, R(c - 1)))));
    case LK__LOOP_POW_DY:
        d = pow_of(t, b, c);
        if (d == 0 || (b == 0 && d == 1))
            return R(a * R(d * 0));
        return R(a * R(d * map1_of(t, LK_MAP1_LOG, b)));
    case LK__LOOP_POW_SCALAR: return pow_of(t, a, q);
    case LK__LOOP_POW_SCALAR_GRAD: return R(a * R(p * pow_of(t, b, q)));
    case LK__LOOP_POW_SCALAR_GRAD_OF_2: return R(a * R(p * b));
    case LK__LOOP_POW_SCALAR_GRAD_OF_3: return R(a * R(p * R(b * b)));
    case LK__LOOP_SQUARED_ERROR: return R(p * R(R(a - b) * R(a - b)));
    case LK__LOOP_SQUARED_ERROR_GRAD: return R(p * R(R(a - b) * c));
    case LK__LOOP_LOGISTIC_LOSS:
        d = a > 0 ? R(R(1 - b) * a) : -R(b * a);
        return R(d + map1_of(t, LK_MAP1_SOFTPLUS, -fabs(a)));
    case LK__LOOP_LOGISTIC_LOSS_GRAD: return R(R(map1_of(t, LK_MAP1_SIGMOID, a) - b) * c);
    case LK__LOOP_EXP_LESS: return map1_of(t, LK_MAP1_EXP, R(a - p));
    case LK__LOOP_ENTROPY: return b == 0 ? 0 : R(b * R(R(a - p) - q));
    case LK__LOOP_LOG_SOFTMAX_GRAD: return R(R(b - R(map1_of(t, LK_MAP1_EXP, a) * p)) + q);
    case LK__LOOP_CAST: return R(a);
    default: return a != 0 ? b : c; /* where */
    }
}

/* The first input as a number that is 0 where it is. */
static double element_get(lk_dtype t, const void *p, int i)
{
    switch (t) {
    case LK_I32: return (double)((const int32_t *)p)[i];
    case LK_I64: return (double)((const int64_t *)p)[i];
    case LK_U8: return (double)((const uint8_t *)p)[i];
    case LK_BF16: return ((const uint16_t *)p)[i] % 0x8000;
    default: return real_get(t, p, i);
    }
}

static void formula_check(lk_dtype t, int loop)
{
    lk_isa isa;
    ASSERT_OK(lk_isa_now(&isa));
    if (isa != LK_ISA_SCALAR || loop < LK__LOOP_FILL || has_two(loop))
        return;
    for (int i = 0; i < N; i++) {
        double x[LK_LOOP_MAX_IN] = {0};
        for (int k = 0; k < loops[loop].n_in; k++)
            x[k] = element_get(type_of(t, loop, k), inputs[k], i);
        double w = formula(t, loop, x, rounded(t, 0.1), rounded(t, 0.75));
        if (!real_same(real_get(t, want, i), w))
            TEST_FAIL("%s %s of %g, %g, %g is %g, not %g", lk_dtype_name(t), loops[loop].name, x[0],
                      x[1], x[2], real_get(t, want, i), w);
    }
}

TEST(loops_are_the_formulas_of_their_ops)
{
    every_loop(formula_check);
}

/* Bases without special cases have loops of their own: they give what others give. */
TEST(powers_of_positive_numbers_are_those_of_all)
{
    static const double exponents[] = {0.5, -1.7, 3, 7.25, -40, 0, 1e30, (double)NAN};
    for (int t = LK_F32; t <= LK_F64; t++)
        for (int e = 0; e < (int)(sizeof exponents / sizeof *exponents); e++) {
            lk_dtype dtype = (lk_dtype)t;
            const lk__loops_table *table;
            double q = rounded(dtype, exponents[e]);
            lk__operands o = {.n = N, .x = {inputs[0]}, .y = got, .p = {0, q}};
            inputs_fill(dtype, LK__LOOP_POW_SCALAR);
            for (int i = 0; i < N; i++) {
                double x = fabs(real_get(dtype, inputs[0], i));
                x = i % 50 == 0 ? 1 : i % 50 == 1 ? 5e-324 : x;
                x = rounded(dtype, x == 0 || !isfinite(x) ? 1e-40 : x);
                real_set(dtype, inputs[0], i, x == 0 ? 1.5 : x);
                real_set(dtype, want, i, pow_of(dtype, real_get(dtype, inputs[0], i), q));
            }
            ASSERT_OK(lk__loops_get(&table));
            table->of[t][LK__LOOP_POW_SCALAR](&o);
            nan_unify(dtype, want);
            bits_check(dtype, LK__LOOP_POW_SCALAR, "exponent", e);
        }
}

/* Phi(x) + x f(x).  It is 0 near -0.75, so the bound is that of an absolute error; for f64, where long
 * double may be double, with room for the reference's own. */
static void slope_check(lk_dtype t, int loop)
{
    const long double bound = t == LK_F32 ? 1.5e-7L : 5e-16L;
    if (loop != LK__LOOP_GELU_SLOPE)
        return;
    for (int i = 0; i < N; i++) {
        double v = real_get(t, inputs[0], i), slope = real_get(t, second_of(t, want), i);
        if (isnan(v)) {
            ASSERT_TRUE(isnan(slope));
            continue;
        }
        long double x = (long double)(v > 50 ? 50 : v < -50 ? -50 : v);
        long double density = expl(-x * x / 2) * 0.398942280401432677939946059934381868L;
        long double exact = erfcl(-x * sqrtl(0.5L)) / 2 + x * density;
        if (!(fabsl((long double)slope - exact) <= bound))
            TEST_FAIL("%s slope of gelu at %a: %a, not %La", lk_dtype_name(t), v, slope, exact);
    }
}

TEST(the_slope_of_gelu_is_within_its_bound)
{
    every_loop(slope_check);
}

TEST(gelu_beside_its_slope_is_gelu)
{
    for (int t = LK_F32; t <= LK_F64; t++) {
        inputs_fill((lk_dtype)t, LK__LOOP_GELU);
        loop_run((lk_dtype)t, LK__LOOP_GELU, 0, N, want);
        loop_run((lk_dtype)t, LK__LOOP_GELU_SLOPE, 0, N, got);
        nan_unify((lk_dtype)t, want);
        bits_check((lk_dtype)t, LK__LOOP_GELU, "with its slope", 0);
    }
}
