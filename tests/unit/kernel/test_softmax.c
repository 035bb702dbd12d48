/* Softmax and log-softmax by rows. */
#include "all_threads.h"
#include "guard.h"
#include "harness.h"
#include "kernel/reference/reference.h"
#include "real.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <stdint.h>

enum { MAX = 20000 };

static double x_values[MAX], want[MAX], got[MAX];

typedef lk_status softmax_fn(lk_dtype, const lk_rows *, const void *, void *);
static softmax_fn *const both[] = {lk_softmax_rows, lk_log_softmax_rows};

TEST(rows_agree_with_the_formula)
{
    static const int64_t cols[] = {1, 2, 10, 15, 16, 17, 31, 100, 1000};
    for (int type = LK_F32; type <= LK_F64; type++)
        for (size_t k = 0; k < sizeof cols / sizeof cols[0]; k++) {
            lk_dtype t = (lk_dtype)type;
            lk_rows s = {.rows = 7, .cols = cols[k], .ld_x = cols[k] + 3, .ld_y = cols[k] + 1};
            double eps = t == LK_F32 ? 0x1p-23 : 0x1p-52;
            real_fill(t, x_values, MAX, 11 + k, false);
            for (int64_t i = 0; i < 7 * s.ld_x; i++)
                real_set(t, x_values, i, 9 * real_get(t, x_values, i));
            ASSERT_OK(lk_softmax_rows(t, &s, x_values, got));
            ASSERT_OK(lk_log_softmax_rows(t, &s, x_values, want));
            for (int r = 0; r < 7; r++) {
                long double sum = 0, total = 0, max = -HUGE_VALL;
                for (int64_t c = 0; c < s.cols; c++)
                    max = fmaxl(max, (long double)real_get(t, x_values, r * s.ld_x + c));
                for (int64_t c = 0; c < s.cols; c++)
                    sum += expl((long double)real_get(t, x_values, r * s.ld_x + c) - max);
                for (int64_t c = 0; c < s.cols; c++) {
                    long double d = (long double)real_get(t, x_values, r * s.ld_x + c) - max;
                    double p = real_get(t, got, r * s.ld_y + c);
                    double l = real_get(t, want, r * s.ld_y + c);
                    double exact = (double)(expl(d) / sum), exact_log = (double)(d - logl(sum));
                    /* Rounding of d <= 18, then of exp, of the sum's chain and of the quotient. */
                    double chain = (double)(s.cols / 16 + 8);
                    ASSERT_NEAR(p, exact, exact * eps * (12 + chain));
                    ASSERT_NEAR(l, exact_log, eps * (24 + chain));
                    total += (long double)p;
                }
                ASSERT_NEAR(total, 1, eps * (double)(s.cols + 16));
            }
        }
}

/* exp of every element, then the lane sum of the whole row, then the quotient: the very bits.  Logits of
 * a range of `reach`. */
static void check_row(lk_dtype t, double reach)
{
    enum { COLS = 16 * 5 + 3 };
    double x[COLS], y[COLS], by_definition[COLS];
    lk_rows s = {.rows = 1, .cols = COLS, .ld_x = COLS, .ld_y = COLS};
    real_fill(t, x, COLS, 3, false);
    for (int i = 0; i < COLS; i++)
        real_set(t, x, i, reach * real_get(t, x, i));
    for (int log = 0; log < 2; log++) {
        lk__ref_softmax_rows(t, &s, log, x, by_definition, NULL);
        ASSERT_OK(both[log](t, &s, x, y));
        ASSERT_SAME_BITS(y, by_definition, COLS * lk_dtype_size(t));
    }
}

/* Down to exponentials that are denormal, and 0. */
TEST(the_sum_is_the_lane_sum)
{
    check_row(LK_F32, 1);
    check_row(LK_F32, 70);
    check_row(LK_F64, 1);
    check_row(LK_F64, 500);
}

TEST(large_logits_do_not_overflow)
{
    float x[] = {1e30F, 1e30F, -1e30F, 3e38F, -3e38F}, y[5];
    lk_rows s = {.rows = 1, .cols = 2, .ld_x = 5, .ld_y = 5};
    ASSERT_OK(lk_softmax_rows(LK_F32, &s, x, y));
    ASSERT_TRUE(y[0] == 0.5F && y[1] == 0.5F);
    s.cols = 5;
    ASSERT_OK(lk_softmax_rows(LK_F32, &s, x, y));
    ASSERT_TRUE(y[0] == 0 && y[2] == 0 && y[3] == 1 && y[4] == 0);
    s.cols = 3;
    ASSERT_OK(lk_log_softmax_rows(LK_F32, &s, x, y));
    ASSERT_TRUE(y[0] == -(float)M_LN2 && y[1] == y[0] && y[2] == -2e30F);
}

/* A masked position is -inf: it gets no probability, and the others do not notice it. */
TEST(minus_infinity_has_no_probability)
{
    double x[] = {-HUGE_VAL, 1, -HUGE_VAL, 1, -HUGE_VAL}, y[5];
    lk_rows s = {.rows = 1, .cols = 5, .ld_x = 5, .ld_y = 5};
    ASSERT_OK(lk_softmax_rows(LK_F64, &s, x, y));
    ASSERT_TRUE(y[0] == 0 && y[1] == 0.5 && y[2] == 0 && y[3] == 0.5 && y[4] == 0);
    ASSERT_OK(lk_log_softmax_rows(LK_F64, &s, x, y));
    ASSERT_TRUE(y[0] == -HUGE_VAL && y[1] == -M_LN2 && y[4] == -HUGE_VAL);
}

TEST(a_row_without_softmax_is_nan_and_leaves_others_alone)
{
    const double x[] = {-HUGE_VAL, -HUGE_VAL, 0, HUGE_VAL, 0, (double)NAN, 0, 0};
    double y[8];
    lk_rows s = {.rows = 4, .cols = 2, .ld_x = 2, .ld_y = 2};
    for (int log = 0; log < 2; log++) {
        ASSERT_OK(both[log](LK_F64, &s, x, y));
        for (int i = 0; i < 6; i++)
            ASSERT_TRUE(isnan(y[i]));
        ASSERT_TRUE(y[6] == (log ? -M_LN2 : 0.5) && y[7] == y[6]);
    }
}

TEST(every_way_gives_the_same_bits)
{
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int64_t cols = 1; cols <= 1000; cols = cols * 3 + 1)
            for (int log = 0; log < 2; log++) {
                lk_dtype t = (lk_dtype)type;
                int64_t rows = MAX / cols;
                lk_rows s = {.rows = rows, .cols = cols, .ld_x = cols, .ld_y = cols};
                size_t size = lk_dtype_size(t), bytes = (size_t)(rows * cols) * size;
                real_fill(t, x_values, MAX, 5, false);
                ASSERT_OK(lk_isa_set(LK_ISA_SCALAR));
                ASSERT_OK(lk_threads_set(1));
                ASSERT_OK(both[log](t, &s, x_values, want));
                for (int isa = LK_ISA_SCALAR + 1; isa < LK_N_ISAS; isa++) {
                    if (!lk_isa_is_available((lk_isa)isa))
                        continue;
                    ASSERT_OK(lk_isa_set((lk_isa)isa));
                    ASSERT_OK(both[log](t, &s, x_values, got));
                    ASSERT_SAME_BITS(got, want, bytes);
                }
                ASSERT_OK(lk_isa_set(best));
                for (int threads = 2; threads <= 4; threads++) {
                    all_threads_set(threads);
                    ASSERT_OK(both[log](t, &s, x_values, got));
                    ASSERT_SAME_BITS(got, want, bytes);
                }
                memcpy(got, x_values, bytes);
                ASSERT_OK(both[log](t, &s, got, got));
                ASSERT_SAME_BITS(got, want, bytes);
                lk_rows one = {.rows = 1, .cols = cols, .ld_x = cols, .ld_y = cols};
                size_t at = (size_t)((rows - 1) * cols) * size;
                ASSERT_OK(both[log](t, &one, (char *)x_values + at, got));
                ASSERT_SAME_BITS(got, (char *)want + at, (size_t)cols * size);
            }
    ASSERT_OK(lk_threads_set(0));
}

TEST(nothing_beyond_the_rows_is_touched)
{
    for (int type = LK_F32; type <= LK_F64; type++)
        for (int64_t cols = 1; cols <= 40; cols++)
            for (int log = 0; log < 2; log++) {
                lk_dtype t = (lk_dtype)type;
                struct guard x = guard_real(t, 3 * cols, 5, false),
                             y = guard_real(t, 3 * cols, 6, false);
                lk_rows s = {.rows = 3, .cols = cols, .ld_x = cols, .ld_y = cols};
                ASSERT_OK(both[log](t, &s, x.data, y.data));
                guard_free(&x);
                guard_free(&y);
            }
}

TEST(gaps_between_rows_stay_as_they_are)
{
    float x[12], y[15];
    real_fill(LK_F32, x, 12, 5, false);
    for (int i = 0; i < 15; i++)
        y[i] = 42;
    lk_rows s = {.rows = 3, .cols = 2, .ld_x = 4, .ld_y = 5};
    ASSERT_OK(lk_softmax_rows(LK_F32, &s, x, y));
    for (int i = 0; i < 15; i++)
        ASSERT_TRUE((y[i] == 42) == (i % 5 >= 2));
}

TEST(columns_of_one_matrix_may_be_both_operands)
{
    double m[4][6] = {{0}};
    lk_rows s = {.rows = 4, .cols = 3, .ld_x = 6, .ld_y = 6};
    ASSERT_OK(lk_softmax_rows(LK_F64, &s, &m[0][0], &m[0][3]));
    ASSERT_OK(lk_softmax_rows(LK_F64, &s, &m[0][3], &m[0][0]));
    ASSERT_TRUE(m[3][5] == 1.0 / 3 && m[3][0] == 1.0 / 3);
    ASSERT_FAILS(lk_softmax_rows(LK_F64, &s, &m[0][0], &m[0][2]), LK_EOVERLAP, "x and y overlap");
    ASSERT_FAILS(lk_softmax_rows(LK_F64, &s, &m[1][0], &m[0][0]), LK_EOVERLAP, "x and y overlap");
    s.rows = 3;
    ASSERT_FAILS(lk_softmax_rows(LK_F64, &s, &m[0][0], &m[0][4]), LK_EOVERLAP, "x and y overlap");
    s.ld_y = 5;
    ASSERT_FAILS(lk_softmax_rows(LK_F64, &s, &m[0][0], &m[0][0]), LK_EOVERLAP, "ld_x 6, ld_y 5");
}

TEST(empty_shapes_do_nothing)
{
    lk_rows no_rows = {.rows = 0, .cols = 3, .ld_x = 3, .ld_y = 3};
    lk_rows no_cols = {.rows = 3, .cols = 0, .ld_x = 0, .ld_y = 0};
    for (int log = 0; log < 2; log++) {
        ASSERT_OK(both[log](LK_F32, &no_rows, NULL, NULL));
        ASSERT_OK(both[log](LK_F32, &no_cols, NULL, NULL));
    }
}

TEST(wrong_arguments_are_refused)
{
    float x[6] = {0}, y[6];
    lk_rows good = {.rows = 2, .cols = 3, .ld_x = 3, .ld_y = 3}, s = good;
    ASSERT_FAILS(lk_softmax_rows(LK_BF16, &s, x, y), LK_EDTYPE, "bf16");
    ASSERT_FAILS(lk_softmax_rows(LK_F32, NULL, x, y), LK_EINVAL, "shape is NULL");
    ASSERT_FAILS(lk_softmax_rows(LK_F32, &s, NULL, y), LK_EINVAL, "x is NULL");
    ASSERT_FAILS(lk_log_softmax_rows(LK_F32, &s, x, NULL), LK_EINVAL, "y is NULL");
    s.rows = -2;
    ASSERT_FAILS(lk_softmax_rows(LK_F32, &s, x, y), LK_EINVAL, "-2 rows x 3 cols");
    s = good;
    s.ld_x = 2;
    ASSERT_FAILS(lk_softmax_rows(LK_F32, &s, x, y), LK_EINVAL, "ld_x is 2");
    s = good;
    s.ld_y = -3;
    ASSERT_FAILS(lk_log_softmax_rows(LK_F32, &s, x, y), LK_EINVAL, "ld_y -3");
    s = (lk_rows){.rows = INT64_MAX / 2, .cols = 3, .ld_x = 3, .ld_y = 3};
    ASSERT_FAILS(lk_softmax_rows(LK_F32, &s, x, y), LK_EOVERFLOW, "");
    s = (lk_rows){.rows = 1, .cols = 3, .ld_x = INT64_MAX, .ld_y = INT64_MAX};
    ASSERT_OK(lk_softmax_rows(LK_F32, &s, x, y));
}
