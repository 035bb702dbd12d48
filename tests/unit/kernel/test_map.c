/* Element-wise maps: formulas, operands, refusals, and the same bits everywhere. */
#include "all_threads.h"
#include "guard.h"
#include "harness.h"
#include "kernel/reference/reference.h"
#include "real.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <stdint.h>

#define P 0.75 /* the parameter of maps that have one */

enum { N = 40009 }; /* several threads' share, and no multiple of anything */

static double x_values[N], y_values[N], want[N], got[N];

/* Arguments of every size: half in the range where functions bend, the others anywhere. */
static void fill(lk_dtype t, void *p, uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < N; i++) {
        uint32_t r = real_random(&state), s = real_random(&state);
        double v = ((double)r * 0x1p-30 - 1) * 12;
        if (s % 2)
            v = ldexp(v, (int)(s / 2 % 400) - 200);
        if (s % 101 == 0)
            v = s % 3 == 0 ? (double)NAN : s % 3 == 1 ? HUGE_VAL : -HUGE_VAL;
        real_set(t, p, i, v);
    }
}

/* NaN has many patterns, and which one comes out is not promised. */
static void nan_unify(lk_dtype t, void *p)
{
    for (int i = 0; i < N; i++)
        if (isnan(real_get(t, p, i)))
            real_set(t, p, i, (double)NAN);
}

/* All maps of one argument, then those of two, by number. */
static void map_run(lk_dtype t, int op, int64_t first, int64_t n, void *out)
{
    size_t at = (size_t)first * lk_dtype_size(t);
    const char *x = (const char *)x_values + at, *y = (const char *)y_values + at;
    if (op < LK_N_MAP1)
        ASSERT_OK(lk_map1(t, (lk_map1_op)op, P, n, x, (char *)out + at));
    else
        ASSERT_OK(lk_map2(t, (lk_map2_op)(op - LK_N_MAP1), P, n, x, y, (char *)out + at));
}

static void bits_check(lk_dtype t, int op, const char *what, int number)
{
    nan_unify(t, got);
    if (memcmp(got, want, N * lk_dtype_size(t)) != 0)
        TEST_FAIL("%s %s: %s %d gives other bits", lk_dtype_name(t),
                  op < LK_N_MAP1 ? lk_map1_name((lk_map1_op)op)
                                 : lk_map2_name((lk_map2_op)(op - LK_N_MAP1)),
                  what, number);
}

TEST(every_map_gives_the_same_bits_everywhere)
{
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int type = LK_F32; type <= LK_F64; type++) {
        lk_dtype t = (lk_dtype)type;
        fill(t, x_values, 1);
        fill(t, y_values, 2);
        for (int op = 0; op < LK_N_MAP1 + LK_N_MAP2; op++) {
            ASSERT_OK(lk_isa_set(LK_ISA_SCALAR));
            ASSERT_OK(lk_threads_set(1));
            map_run(t, op, 0, N, want);
            nan_unify(t, want);
            for (int isa = LK_ISA_SCALAR + 1; isa < LK_N_ISAS; isa++) {
                if (!lk_isa_is_available((lk_isa)isa))
                    continue;
                ASSERT_OK(lk_isa_set((lk_isa)isa));
                map_run(t, op, 0, N, got);
                bits_check(t, op, "instruction set", isa);
            }
            ASSERT_OK(lk_isa_set(best));
            for (int threads = 2; threads <= 4; threads++) {
                all_threads_set(threads);
                map_run(t, op, 0, N, got);
                bits_check(t, op, "threads", threads);
            }
            for (int64_t cut = 1; cut < 20; cut += 3) {
                map_run(t, op, 0, cut, got);
                map_run(t, op, cut, 1000, got);
                map_run(t, op, cut + 1000, N - cut - 1000, got);
                bits_check(t, op, "cut at", (int)cut);
            }
        }
    }
    ASSERT_OK(lk_threads_set(0));
}

TEST(simple_maps_are_their_formulas)
{
    fill(LK_F64, x_values, 3);
    fill(LK_F64, y_values, 4);
    for (int op = 0; op < LK_N_MAP1 + LK_N_MAP2; op++) {
        map_run(LK_F64, op, 0, N, got);
        for (int i = 0; i < N; i++) {
            double x = x_values[i], w;
            if (op < LK_N_MAP1
                    ? lk__ref_map1(LK_F64, (lk_map1_op)op, P, x, &w)
                    : lk__ref_map2(LK_F64, (lk_map2_op)(op - LK_N_MAP1), P, x, y_values[i], &w))
                ASSERT_TRUE(real_same(got[i], w));
        }
    }
}

/* p = 0.1 is not a float: the map must use the nearest one. */
TEST(the_parameter_is_rounded_to_the_type)
{
    float x = 3, y;
    ASSERT_OK(lk_map1(LK_F32, LK_MAP1_SCALE, 0.1, 1, &x, &y));
    ASSERT_TRUE(y == 0.1F * 3);
    double d = 3, z;
    ASSERT_OK(lk_map1(LK_F64, LK_MAP1_SCALE, 0.1, 1, &d, &z));
    ASSERT_TRUE(z == 0.1 * 3);
}

TEST(a_map_may_write_over_its_operands)
{
    for (int type = LK_F32; type <= LK_F64; type++) {
        lk_dtype t = (lk_dtype)type;
        size_t bytes = N * lk_dtype_size(t);
        fill(t, x_values, 5);
        fill(t, y_values, 6);
        for (int op = 0; op < LK_N_MAP1; op++) {
            map_run(t, op, 0, N, want);
            memcpy(got, x_values, bytes);
            ASSERT_OK(lk_map1(t, (lk_map1_op)op, 0.75, N, got, got));
            nan_unify(t, want);
            bits_check(t, op, "in place", 0);
        }
        for (int op = 0; op < LK_N_MAP2; op++) {
            map_run(t, LK_N_MAP1 + op, 0, N, want);
            nan_unify(t, want);
            memcpy(got, x_values, bytes);
            ASSERT_OK(lk_map2(t, (lk_map2_op)op, 0.75, N, got, y_values, got));
            bits_check(t, LK_N_MAP1 + op, "in place of operand", 1);
            memcpy(got, y_values, bytes);
            ASSERT_OK(lk_map2(t, (lk_map2_op)op, 0.75, N, x_values, got, got));
            bits_check(t, LK_N_MAP1 + op, "in place of operand", 2);
        }
    }
}

TEST(nothing_beyond_the_operands_is_touched)
{
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int n = 1; n <= 40; n++) {
            lk_dtype t = (lk_dtype)type;
            struct guard x = guard_real(t, n, 7, false), y = guard_real(t, n, 8, false);
            for (int op = 0; op < LK_N_MAP1; op++)
                ASSERT_OK(lk_map1(t, (lk_map1_op)op, 1, n, x.data, y.data));
            for (int op = 0; op < LK_N_MAP2; op++)
                ASSERT_OK(lk_map2(t, (lk_map2_op)op, 1, n, x.data, x.data, y.data));
            guard_free(&x);
            guard_free(&y);
        }
}

TEST(an_empty_map_does_nothing)
{
    ASSERT_OK(lk_map1(LK_F32, LK_MAP1_EXP, 0, 0, NULL, NULL));
    ASSERT_OK(lk_map2(LK_F64, LK_MAP2_ADD, 0, 0, NULL, NULL, NULL));
}

TEST(wrong_arguments_are_refused)
{
    float x[8] = {0}, y[8] = {0};
    ASSERT_FAILS(lk_map1(LK_I32, LK_MAP1_EXP, 0, 8, x, y), LK_EDTYPE, "i32");
    ASSERT_FAILS(lk_map1(LK_F32, LK_N_MAP1, 0, 8, x, y), LK_EINVAL, "op is 20");
    ASSERT_FAILS(lk_map1(LK_F32, (lk_map1_op)-1, 0, 8, x, y), LK_EINVAL, "op is -1");
    ASSERT_FAILS(lk_map1(LK_F32, LK_MAP1_EXP, 0, -8, x, y), LK_EINVAL, "n is -8");
    ASSERT_FAILS(lk_map1(LK_F32, LK_MAP1_EXP, 0, 8, NULL, y), LK_EINVAL, "x is NULL");
    ASSERT_FAILS(lk_map1(LK_F32, LK_MAP1_EXP, 0, 8, x, NULL), LK_EINVAL, "y is NULL");
    ASSERT_FAILS(lk_map1(LK_F64, LK_MAP1_EXP, 0, INT64_MAX / 4, x, y), LK_EOVERFLOW, "n is ");
    ASSERT_FAILS(lk_map1(LK_F32, LK_MAP1_EXP, 0, 4, x, x + 1), LK_EOVERLAP, "x and y");
    ASSERT_FAILS(lk_map1(LK_F32, LK_MAP1_EXP, 0, 4, x + 3, x), LK_EOVERLAP, "12 bytes apart");
    ASSERT_OK(lk_map1(LK_F32, LK_MAP1_EXP, 0, 4, x + 4, x));
    ASSERT_FAILS(lk_map2(LK_U8, LK_MAP2_ADD, 0, 8, x, x, y), LK_EDTYPE, "u8");
    ASSERT_FAILS(lk_map2(LK_F32, LK_N_MAP2, 0, 8, x, x, y), LK_EINVAL, "op is 8");
    ASSERT_FAILS(lk_map2(LK_F32, LK_MAP2_ADD, 0, -1, x, x, y), LK_EINVAL, "n is -1");
    ASSERT_FAILS(lk_map2(LK_F32, LK_MAP2_ADD, 0, 8, x, NULL, y), LK_EINVAL, "y is NULL");
    ASSERT_FAILS(lk_map2(LK_F32, LK_MAP2_ADD, 0, 8, x, x, NULL), LK_EINVAL, "z is NULL");
    ASSERT_FAILS(lk_map2(LK_F32, LK_MAP2_ADD, 0, 4, y, x, x + 2), LK_EOVERLAP, "y and z");
}

TEST(names_and_formulas_are_known)
{
    ASSERT_EQ(strcmp(lk_map1_name(LK_MAP1_LEAKY_RELU), "leaky_relu"), 0);
    ASSERT_EQ(strcmp(lk_map1_formula(LK_MAP1_RECIP), "1 / x"), 0);
    ASSERT_EQ(strcmp(lk_map2_name(LK_MAP2_POW), "pow"), 0);
    ASSERT_EQ(strcmp(lk_map2_formula(LK_MAP2_AXPY), "fma(p, x, y)"), 0);
    ASSERT_EQ(strcmp(lk_map1_name(LK_N_MAP1), "?"), 0);
    ASSERT_EQ(strcmp(lk_map1_formula((lk_map1_op)-1), "?"), 0);
    ASSERT_EQ(strcmp(lk_map2_name(LK_N_MAP2), "?"), 0);
    ASSERT_EQ(strcmp(lk_map2_formula(LK_N_MAP2), "?"), 0);
}
