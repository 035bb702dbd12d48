/* Matrix multiplication: every way of storing and starting, in every instruction set, against the
 * definition, bit for bit. */
#include "gemm_case.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/thread.h>

static const int64_t shapes[][3] = {{1, 1, 1},   {2, 3, 5},    {7, 11, 13},  {6, 16, 8},
                                    {12, 32, 4}, {13, 33, 17}, {5, 24, 1},   {1, 67, 19},
                                    {31, 1, 23}, {3, 100, 2},  {29, 41, 37}, {17, 20, 6}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

TEST(every_product_is_the_chain)
{
    for (int i = 0; i < N_SHAPES; i++)
        case_check_shape(shapes[i][0], shapes[i][1], shapes[i][2], 0, i % 3, false);
}

TEST(zeros_denormals_and_infinities_take_part)
{
    for (int i = 0; i < N_SHAPES; i += 2)
        case_check_shape(shapes[i][0], shapes[i][1], shapes[i][2], i % 4 ? 4 : 0, 1, true);
}

TEST(pieces_follow_the_tree)
{
    const int step = TEST_SLOWNESS > 1 ? 3 : 1;
    for (int i = 0; i < N_SHAPES; i += step)
        for (int64_t piece = 1; piece <= 16; piece *= piece == 1 ? 3 : 5)
            case_check_shape(shapes[i][0], shapes[i][1], shapes[i][2], piece, 0, false);
}

/* Beyond what is packed at once: 1024 rows of a panel, 256 steps with pieces. */
TEST(long_sums_are_the_same_chain)
{
    case_check_shape(7, 17, 1100, 0, 0, false);
    case_check_shape(15, 18, 300, 16, 1, false);
    case_check_shape(4, 3, 1300, 300, 0, false);
    case_check_shape(9, 10, 2500, 16, 0, false);
}

/* More rows than a band, more panels than are packed together, and what is left of each. */
TEST(large_products_are_the_same_chain)
{
    case_check_shape(203, 83, 10, 0, 0, false);
    case_check_shape(203, 290, 16, 16, 1, false);
    case_check_shape(109, 83, 100, 16, 0, false);
    case_check_shape(103, 71, 300, 16, 0, false);
    case_check_shape(40, 300, 75, 24, 0, false);
    case_check_shape(1, 203, 131, 0, 1, false);
}

/* Fewer columns than a vector holds: blocks of 256 rows, which are computed as their transpose. */
TEST(narrow_products_follow_the_tree)
{
    static const int64_t narrow[] = {2, 3, 6, 10, 12, 24};
    for (int i = 0; i < 6; i++)
        case_check_shape(4 * narrow[i] + 5, narrow[i], 37, 16, i % 3, false);
    case_check_shape(523, 10, 33, 16, 1, true);
    case_check_shape(270, 5, 300, 16, 0, false);
    const lk_gemm g = {.dtype = LK_F32, .trans_a = true, .m = 1003, .n = 10, .k = 100, .piece = 16};
    struct gemm_case x = case_new(g, 0, true, false);
    case_check_everywhere(&x, 4);
    case_free(&x);
    ASSERT_OK(lk_threads_set(0));
}

/* Few columns of B that many rows use: packed on the way, of every width on offer. */
TEST(narrow_panels_are_the_same_chain)
{
    static const int64_t narrow[] = {1, 3, 7, 10, 13, 19, 23, 31};
    for (int i = 0; i < 8; i++)
        case_check_shape(70 + i, narrow[i], 29, 0, i % 3, i % 2);
    case_check_shape(103, 10, 1100, 0, 0, false);
}

/* A product of a column and a row: each row of C is stored at once, a sum of +0 and -0 too. */
TEST(one_step_is_row_by_row)
{
    case_check_shape(7, 131, 1, 0, 1, true);
    case_check_shape(3, 257, 1, 1, 0, true);
    const lk_gemm g = {.dtype = LK_F32, .trans_a = true, .m = 211, .n = 1003, .k = 1, .piece = 16};
    struct gemm_case x = case_new(g, 2, true, false);
    case_check_everywhere(&x, 4);
    case_free(&x);
    ASSERT_OK(lk_threads_set(0));
}

TEST(empty_axes_leave_the_start)
{
    for (int64_t piece = 0; piece <= 2; piece += 2) {
        case_check_shape(5, 7, 0, piece, 1, false);
        case_check_shape(0, 7, 3, piece, 1, false);
        case_check_shape(5, 0, 3, piece, 1, false);
        case_check_shape(0, 0, 0, piece, 0, false);
    }
}

TEST(threads_never_change_a_bit)
{
    for (int kind = 0; kind < 8; kind++) {
        const lk_gemm g = {.dtype = LK_F32,
                           .trans_a = kind & 1,
                           .trans_b = kind & 2,
                           .m = 301,
                           .n = 223,
                           .k = 53,
                           .piece = kind & 4 ? 16 : 0};
        struct gemm_case x = case_new(g, 0, true, false);
        case_check_everywhere(&x, 4);
        case_free(&x);
    }
    const lk_gemm row = {.dtype = LK_F32, .m = 1, .n = 4099, .k = 701};
    struct gemm_case x = case_new(row, 0, true, false);
    case_check_everywhere(&x, 4);
    case_free(&x);
    ASSERT_OK(lk_threads_set(0));
}

/* Rows in two calls, and k in two calls of which the second accumulates, are the whole. */
TEST(parts_are_the_whole)
{
    const lk_gemm g = {.dtype = LK_F32, .m = 23, .n = 45, .k = 131};
    for (int64_t cut = 0; cut <= 23; cut++) {
        struct gemm_case x = case_new(g, 0, false, false);
        struct guard whole = case_result(&x), rows = case_copy(&x), sums = case_copy(&x);
        lk_gemm low = x.g, high = x.g;
        low.m = cut;
        high.m = g.m - cut;
        ASSERT_OK(lk_gemm_run(&low, x.a.data, x.b.data, NULL, rows.data));
        ASSERT_OK(lk_gemm_run(&high, (float *)x.a.data + cut * x.g.lda, x.b.data, NULL,
                              (float *)rows.data + cut * x.g.ldc));
        ASSERT_TRUE(memcmp(rows.data, whole.data, (size_t)x.c_len * 4) == 0);
        low = high = x.g;
        low.k = 5 * cut;
        high.k = g.k - 5 * cut;
        high.accumulate = true;
        ASSERT_OK(lk_gemm_run(&low, x.a.data, x.b.data, NULL, sums.data));
        ASSERT_OK(lk_gemm_run(&high, (float *)x.a.data + low.k, (float *)x.b.data + low.k * x.g.ldb,
                              NULL, sums.data));
        ASSERT_TRUE(memcmp(sums.data, whole.data, (size_t)x.c_len * 4) == 0);
        guard_free(&whole);
        guard_free(&rows);
        guard_free(&sums);
        case_free(&x);
    }
}

TEST(errors_stay_within_the_bound_of_the_chain)
{
    const lk_gemm g = {.dtype = LK_F32, .m = 11, .n = 13, .k = 1250};
    struct gemm_case x = case_new(g, 0, false, false);
    const float *a = x.a.data, *b = x.b.data, *c = x.c.data;
    ASSERT_OK(lk_gemm_run(&x.g, a, b, NULL, x.c.data));
    for (int i = 0; i < 11; i++)
        for (int j = 0; j < 13; j++) {
            double sum = 0, size = 0;
            for (int k = 0; k < 1250; k++) {
                const double term = (double)a[i * 1250 + k] * (double)b[k * 13 + j];
                sum += term;
                size += fabs(term);
            }
            /* k roundings, each at most half an ulp of a partial sum */
            ASSERT_NEAR((double)c[i * 13 + j], sum, 1250 * 0x1p-24 * size);
        }
    case_free(&x);
}

TEST(the_activation_is_the_map)
{
    for (int kind = 0; kind < 8 * LK_N_ACTS; kind++) {
        const bool narrow = kind & 4;
        const lk_gemm g = {.dtype = kind & 1 ? LK_F64 : LK_F32,
                           .trans_a = kind & 2,
                           .act = (lk_act)(kind / 8),
                           .m = narrow     ? 31
                                : kind & 1 ? 1
                                           : 19,
                           .n = narrow ? 5 : 301,
                           .k = 9,
                           .piece = narrow ? 4 : 0};
        struct gemm_case x = case_new(g, 2, true, false);
        struct guard expect = case_result(&x);
        case_check(&x, &expect);
        guard_free(&expect);
        case_free(&x);
    }
}

/* Heads of attention: the products interleave in every operand, and B is shared. */
TEST(batches_are_single_products)
{
    enum { COUNT = 3, M = 5, N = 7, K = 11 };
    const lk_gemm g = {
        .dtype = LK_F64, .m = M, .n = N, .k = K, .lda = COUNT * K, .ldb = N, .ldc = COUNT * N};
    const lk_gemm_batch batch = {.count = COUNT, .stride_a = K, .stride_b = 0, .stride_c = N};
    double a[M * COUNT * K], b[K * N], c[M * COUNT * N], d[M * COUNT * N];
    real_fill(LK_F64, a, M * COUNT * K, 1, false);
    real_fill(LK_F64, b, K * N, 2, false);
    ASSERT_OK(lk_gemm_run_batched(&g, &batch, a, b, NULL, c));
    for (int i = 0; i < COUNT; i++)
        ASSERT_OK(lk_gemm_run(&g, a + i * K, b, NULL, d + i * N));
    ASSERT_TRUE(memcmp(c, d, sizeof c) == 0);
    const lk_gemm_batch none = {.count = 0};
    ASSERT_OK(lk_gemm_run_batched(&g, &none, a, b, NULL, c));
    ASSERT_TRUE(memcmp(c, d, sizeof c) == 0);
}

TEST(nothing_is_allocated)
{
    ASSERT_OK(lk_threads_set(1));
    const int64_t calls = lk_alloc_stats_now().calls;
    for (int kind = 0; kind < 8; kind++) {
        const lk_gemm g = {.dtype = LK_F32,
                           .trans_a = kind & 1,
                           .trans_b = kind & 2,
                           .m = 30,
                           .n = 50,
                           .k = 2000,
                           .piece = kind & 4 ? 16 : 0};
        struct gemm_case x = case_new(g, 0, false, false);
        ASSERT_OK(lk_gemm_run(&x.g, x.a.data, x.b.data, NULL, x.c.data));
        case_free(&x);
    }
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    ASSERT_OK(lk_threads_set(0));
}
