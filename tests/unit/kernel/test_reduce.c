/* Reductions: the bits of the definition, whatever the layout, instruction set and threads. */
#include "all_threads.h"
#include "guard.h"
#include "harness.h"
#include "kernel/reference/reference.h"
#include "kernel/runtime/isa.h"
#include "real.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

#include <fenv.h>

static const lk_dtype dtypes[] = {LK_F32, LK_F64};

static void check_same(lk_dtype t, const lk_reduce_axis_shape *s, lk_reduce_axis_op op,
                       const void *want, const void *got)
{
    int64_t n = s->outer * s->inner, i = real_differ(t, want, got, n);
    if (i < n)
        TEST_FAIL("%s of %s [%lld][%lld][%lld] piece %lld: y[%lld] is %a, not %a",
                  lk_reduce_axis_op_name(op), lk_dtype_name(t), (long long)s->outer,
                  (long long)s->n, (long long)s->inner, (long long)s->piece, (long long)i,
                  real_get(t, got, i), real_get(t, want, i));
}

/* All instruction sets and numbers of threads on operands that end at a guard page. */
static void check_shape(lk_dtype t, const lk_reduce_axis_shape *s, bool odd, int n_threads)
{
    size_t ny = (size_t)(s->outer * s->inner) * lk_dtype_size(t);
    struct guard x = guard_real(t, s->outer * s->n * s->inner, (uint64_t)(s->n * 31 + s->inner),
                                odd);
    struct guard y = guard_new(ny), want = guard_new(ny);
    for (int op = 0; op < LK_N_REDUCE_AXIS_OPS; op++) {
        lk__ref_reduce_axis(t, (lk_reduce_axis_op)op, s, x.data, want.data, NULL);
        for (int isa = 0; isa < LK_N_ISAS; isa++) {
            if (!lk_isa_is_available((lk_isa)isa))
                continue;
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            for (int threads = 1; threads <= n_threads; threads++) {
                all_threads_set(threads);
                memset(y.data, 0x55, ny);
                ASSERT_OK(lk_reduce_axis(t, (lk_reduce_axis_op)op, s, x.data, y.data));
                check_same(t, s, (lk_reduce_axis_op)op, want.data, y.data);
            }
        }
    }
    guard_free(&x);
    guard_free(&y);
    guard_free(&want);
}

TEST(small_shapes_give_the_bits_of_the_definition)
{
    static const int64_t outer[] = {0, 1, 3}, inner[] = {0, 1, 2, 7, 16, 19};
    static const int64_t n[] = {0, 1, 2, 15, 16, 17, 37, 101}, piece[] = {0, 1, 7, 16, 1000};
    for (int d = 0; d < 2; d++)
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 8; b++)
                for (int c = 0; c < 6; c++)
                    for (int e = 0; e < 5; e++) {
                        lk_reduce_axis_shape s = {outer[a], n[b], inner[c], piece[e]};
                        check_shape(dtypes[d], &s, (a + b + c) % 2, 1);
                    }
}

TEST(large_shapes_give_the_bits_of_the_definition)
{
    static const lk_reduce_axis_shape shape[] = {
        {1, 70001, 1, 0},    /* one chain */
        {1, 70001, 1, 1000}, /* runs of pieces */
        {1, 50000, 1, 16},   /* many small pieces */
        {1, 40000, 1, 1},    /* the tree alone */
        {2, 30011, 3, 512},  /* runs, few columns */
        {5000, 11, 1, 0},    /* many short rows */
        {37, 1009, 1, 100},  /* rows with pieces */
        {1, 501, 130, 0},    /* one column block and a rest */
        {1, 127, 1031, 32},  /* many column blocks */
        {3, 257, 200, 10},   /* samples, blocks and pieces */
        {300, 1, 300, 0},    /* nothing to join */
    };
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
            check_shape(dtypes[d], &shape[i], false, 4);
}

TEST(an_empty_axis_gives_the_neutral_element)
{
    static const double neutral[LK_N_REDUCE_AXIS_OPS] = {[LK_REDUCE_AXIS_PROD] = 1,
                                                         [LK_REDUCE_AXIS_MAX] = -HUGE_VAL,
                                                         [LK_REDUCE_AXIS_MIN] = HUGE_VAL};
    lk_reduce_axis_shape s = {2, 0, 3, 0};
    for (int op = 0; op < LK_N_REDUCE_AXIS_OPS; op++) {
        float y[6];
        ASSERT_OK(lk_reduce_axis(LK_F32, (lk_reduce_axis_op)op, &s, NULL, y));
        for (int i = 0; i < 6; i++)
            ASSERT_TRUE(real_same((double)y[i], neutral[op]));
    }
    s = (lk_reduce_axis_shape){0, 5, 3, 0};
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, NULL, NULL));
    s = (lk_reduce_axis_shape){INT64_MAX, INT64_MAX, 0, 2};
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, NULL, NULL));
}

/* A row of N values with one special among them, or zeros of both signs, in each instruction set. */
enum { N_ROW = 50 };

static void check_row(lk_dtype t, const void *x)
{
    for (int isa = 0; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        for (int op = 0; op < LK_N_REDUCE_AXIS_OPS; op++)
            for (int64_t inner = 1; inner <= 5; inner += 4)
                for (int64_t piece = 0; piece <= 20; piece += 20) {
                    double y[5], want[5];
                    lk_reduce_axis_shape s = {1, N_ROW / inner, inner, piece};
                    lk__ref_reduce_axis(t, (lk_reduce_axis_op)op, &s, x, want, NULL);
                    ASSERT_OK(lk_reduce_axis(t, (lk_reduce_axis_op)op, &s, x, y));
                    check_same(t, &s, (lk_reduce_axis_op)op, want, y);
                }
    }
}

TEST(one_nan_anywhere_makes_the_result_nan)
{
    for (int d = 0; d < 2; d++)
        for (int at = 0; at < N_ROW; at++) {
            double x[N_ROW];
            real_fill(dtypes[d], x, N_ROW, 3, false);
            real_set(dtypes[d], x, at, (double)NAN);
            check_row(dtypes[d], x);
        }
}

TEST(among_zeros_of_both_signs_the_first_is_the_extreme)
{
    for (int d = 0; d < 2; d++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            double x[N_ROW];
            uint64_t state = seed;
            for (int i = 0; i < N_ROW; i++)
                real_set(dtypes[d], x, i, real_random(&state) >> 9 & 1 ? -0.0 : 0.0);
            check_row(dtypes[d], x);
        }
}

TEST(sums_are_as_exact_as_their_longest_chain)
{
    enum { N = 100000 };
    static float x[N];
    real_fill(LK_F32, x, N, 9, false);
    static const int64_t piece[] = {0, 64, 1000};
    for (int i = 0; i < 3; i++) {
        double exact[2] = {0, 0}, size = 0;
        for (int j = 0; j < N; j++) {
            exact[0] += (double)x[j];
            exact[1] += (double)x[j] * (double)x[j];
            size += fabs((double)x[j]);
        }
        int64_t p = piece[i] ? piece[i] : N;
        double roundings = (double)p / LK_LANES + 1 + 4 + ceil(log2((double)N / (double)p));
        lk_reduce_axis_shape s = {1, N, 1, piece[i]};
        float sum, sumsq;
        ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, &sum));
        ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUMSQ, &s, x, &sumsq));
        ASSERT_NEAR(sum, exact[0], 1.01 * roundings * 0x1p-24 * size);
        ASSERT_NEAR(sumsq, exact[1], 1.01 * roundings * 0x1p-24 * exact[1]);
    }
}

TEST(samples_reduce_alone_as_in_a_batch)
{
    enum { OUTER = 7, N = 45, INNER = 5 };
    float x[OUTER][N][INNER], whole[OUTER][INNER], part[OUTER][INNER];
    real_fill(LK_F32, x, sizeof x / 4, 5, true);
    lk_reduce_axis_shape s = {OUTER, N, INNER, 16};
    ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, whole));
    for (int64_t first = 0; first < OUTER; first += 3) {
        s.outer = first + 3 <= OUTER ? 3 : OUTER - first;
        ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, x[first], part[first]));
    }
    ASSERT_TRUE(memcmp(whole, part, sizeof whole) == 0);
}

TEST(bad_input_is_refused_by_name)
{
    float x[24] = {0}, y[8] = {0};
    lk_reduce_axis_shape s = {2, 3, 4, 0}, bad = s;
    ASSERT_FAILS(lk_reduce_axis(LK_I32, LK_REDUCE_AXIS_SUM, &s, x, y), LK_EDTYPE, "x is i32");
    ASSERT_FAILS(lk_reduce_axis(LK_BF16, LK_REDUCE_AXIS_SUM, &s, x, y), LK_EDTYPE, "x is bf16");
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_N_REDUCE_AXIS_OPS, &s, x, y), LK_EINVAL, "number 5");
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, NULL, x, y), LK_EINVAL,
                 "shape is NULL");
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, NULL, y), LK_EINVAL,
                 "x [2][3][4] is NULL");
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, NULL), LK_EINVAL,
                 "y [2][4] is NULL");
    bad.n = -3;
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &bad, x, y), LK_EINVAL, "x [2][-3][4]");
    bad = s;
    bad.piece = -1;
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &bad, x, y), LK_EINVAL, "pieces of -1");
    bad = (lk_reduce_axis_shape){(int64_t)1 << 31, (int64_t)1 << 31, 1, 0};
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &bad, x, y), LK_EOVERFLOW,
                 "[2147483648][2147483648][1]");
    ASSERT_FAILS(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, x + 23), LK_EOVERLAP,
                 "y [2][4] overlaps x [2][3][4]");
    ASSERT_FAILS(
        lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &(lk_reduce_axis_shape){2, 3, 4, 0}, y + 7, y),
        LK_EOVERLAP, "y [2][4] overlaps x [2][3][4]");
}

TEST(a_thread_that_rounds_otherwise_is_refused)
{
    float x[1] = {1}, y[1] = {0};
    lk_reduce_axis_shape s = {1, 1, 1, 0};
    fesetround(FE_UPWARD);
    lk_status st = lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, y);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(st, LK_EFPENV);
}

TEST(nothing_is_allocated)
{
    static float x[100000];
    static float y[100000];
    int64_t calls = lk_alloc_stats_now().calls;
    ASSERT_OK(lk_threads_set(3));
    static const lk_reduce_axis_shape shape[] = {
        {1, 100000, 1, 64}, {100, 10, 100, 3}, {1, 1, 99999, 0}};
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &shape[i], x, y));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
}

TEST(operators_have_names_and_formulas)
{
    ASSERT_TRUE(strcmp(lk_reduce_axis_op_name(LK_REDUCE_AXIS_SUMSQ), "sumsq") == 0);
    ASSERT_TRUE(strcmp(lk_reduce_axis_op_formula(LK_REDUCE_AXIS_PROD), "x0 * x1 * ...") == 0);
    ASSERT_TRUE(strcmp(lk_reduce_axis_op_name(LK_N_REDUCE_AXIS_OPS), "?") == 0);
    ASSERT_TRUE(strcmp(lk_reduce_axis_op_formula((lk_reduce_axis_op)-1), "?") == 0);
}
