/* Matrix multiplication with bad arguments: the error names the argument and both numbers. */
#include "harness.h"

#include <lockstep/extra/gemm.h>

#include <fenv.h>
#include <stdint.h>
#include <string.h>

static float a[64], b[64], bias[8], c[64];

static lk_gemm good(void)
{
    return (lk_gemm){.dtype = LK_F32, .m = 4, .n = 6, .k = 5, .lda = 5, .ldb = 6, .ldc = 6};
}

#define ASSERT_ERROR(expr, status, text)                                      \
    do {                                                                      \
        ASSERT_EQ((expr), (status));                                          \
        if (!strstr(lk_error_message(), (text)))                              \
            TEST_FAIL("\"%s\" is not in \"%s\"", (text), lk_error_message()); \
    } while (0)

static void assert_fails(lk_gemm g, lk_status status, const char *text)
{
    ASSERT_ERROR(lk_gemm_run(&g, a, b, NULL, c), status, text);
}

TEST(a_good_product_is_computed)
{
    const lk_gemm g = good();
    ASSERT_OK(lk_gemm_run(&g, a, b, bias, c));
}

TEST(leading_dimensions_below_the_row_are_named)
{
    lk_gemm g = good();
    g.lda = 4;
    assert_fails(g, LK_ESHAPE, "lda is 4, below the 5 columns of a row of a");
    g = good();
    g.ldb = -6;
    assert_fails(g, LK_ESHAPE, "ldb is -6, below the 6 columns of a row of b");
    g = good();
    g.ldc = 5;
    assert_fails(g, LK_ESHAPE, "ldc is 5, below the 6 columns of a row of c");
    g = good();
    g.trans_a = true;
    g.lda = 3;
    assert_fails(g, LK_ESHAPE, "lda is 3, below the 4 columns");
    g = good();
    g.trans_b = true;
    g.ldb = 4;
    assert_fails(g, LK_ESHAPE, "ldb is 4, below the 5 columns");
}

TEST(negative_sizes_are_named)
{
    lk_gemm g = good();
    g.m = -1;
    assert_fails(g, LK_EINVAL, "m is -1");
    g = good();
    g.n = -2;
    assert_fails(g, LK_EINVAL, "n is -2");
    g = good();
    g.k = -3;
    assert_fails(g, LK_EINVAL, "k is -3");
    g = good();
    g.piece = -4;
    assert_fails(g, LK_EINVAL, "piece is -4");
}

TEST(types_and_activations_are_checked)
{
    lk_gemm g = good();
    g.dtype = LK_I32;
    assert_fails(g, LK_EDTYPE, "dtype is i32, must be f32 or f64");
    g.dtype = (lk_dtype)99;
    assert_fails(g, LK_EDTYPE, "dtype is ?");
    g = good();
    g.act = LK_N_ACTS;
    assert_fails(g, LK_EINVAL, "act is 5, must be below 5");
    g = good();
    g.accumulate = true;
    ASSERT_ERROR(lk_gemm_run(&g, a, b, bias, c), LK_EINVAL, "accumulate and a bias of 6 values");
}

TEST(sizes_that_do_not_fit_are_refused)
{
    lk_gemm g = good();
    g.m = INT64_MAX / 2;
    g.ldc = g.lda = 8;
    assert_fails(g, LK_EOVERFLOW, "c: 4611686018427387903 rows of ldc 8");
    g = good();
    g.k = g.lda = INT64_MAX / 4;
    assert_fails(g, LK_EOVERFLOW, "a: 4 rows of lda 2305843009213693951");
    g = good();
    const lk_gemm_batch batch = {.count = INT64_MAX, .stride_a = 20, .stride_c = 24};
    ASSERT_ERROR(lk_gemm_run_batched(&g, &batch, a, b, NULL, c), LK_EOVERFLOW,
                 "9223372036854775807 products of stride 24");
}

TEST(missing_operands_are_named)
{
    const lk_gemm g = good();
    const lk_gemm_batch one = {.count = 1};
    ASSERT_ERROR(lk_gemm_run(&g, NULL, b, NULL, c), LK_EINVAL, "a is NULL; it has 80 bytes");
    ASSERT_ERROR(lk_gemm_run(&g, a, NULL, NULL, c), LK_EINVAL, "b is NULL; it has 120 bytes");
    ASSERT_ERROR(lk_gemm_run(&g, a, b, NULL, NULL), LK_EINVAL, "c is NULL; it has 96 bytes");
    ASSERT_ERROR(lk_gemm_run(NULL, a, b, NULL, c), LK_EINVAL, "g is NULL");
    ASSERT_ERROR(lk_gemm_run_batched(&g, NULL, a, b, NULL, c), LK_EINVAL, "batch is NULL");
    ASSERT_ERROR(lk_gemm_run_batched(NULL, &one, a, b, NULL, c), LK_EINVAL, "g is NULL");
    lk_gemm empty = good();
    empty.k = 0;
    ASSERT_OK(lk_gemm_run(&empty, NULL, NULL, NULL, c));
    empty.m = 0;
    ASSERT_OK(lk_gemm_run(&empty, NULL, NULL, NULL, NULL));
}

TEST(overlap_is_refused)
{
    const lk_gemm g = good();
    ASSERT_ERROR(lk_gemm_run(&g, c + 23, b, NULL, c), LK_EOVERLAP, "c (96 bytes");
    ASSERT_ERROR(lk_gemm_run(&g, a, c, NULL, c), LK_EOVERLAP, "overlaps b (120 bytes");
    ASSERT_ERROR(lk_gemm_run(&g, a, b, c + 18, c), LK_EOVERLAP, "overlaps bias (24 bytes");
    ASSERT_OK(lk_gemm_run(&g, c + 24, b, NULL, c));
}

/* A reads columns 6 to 10 of a matrix of which C writes columns 0 to 5. */
TEST(columns_beside_each_other_do_not_overlap)
{
    lk_gemm g = good();
    g.lda = g.ldc = 11;
    ASSERT_OK(lk_gemm_run(&g, c + 6, b, NULL, c));
    ASSERT_EQ(lk_gemm_run(&g, c + 5, b, NULL, c), LK_EOVERLAP);
    ASSERT_EQ(lk_gemm_run(&g, c + 7, b, NULL, c), LK_EOVERLAP);
}

TEST(products_must_be_apart)
{
    lk_gemm g = good();
    lk_gemm_batch batch = {.count = 2, .stride_c = 23};
    ASSERT_ERROR(lk_gemm_run_batched(&g, &batch, a, b, NULL, c), LK_EOVERLAP,
                 "2 products of stride_c 23 overlap: each is 4 rows of ldc 6");
    batch.stride_c = 24;
    ASSERT_OK(lk_gemm_run_batched(&g, &batch, a, b, NULL, c));
    g.ldc = 12;
    batch.stride_c = 6;
    ASSERT_OK(lk_gemm_run_batched(&g, &batch, a, b, NULL, c));
    batch.stride_c = 5;
    ASSERT_EQ(lk_gemm_run_batched(&g, &batch, a, b, NULL, c), LK_EOVERLAP);
    batch.stride_c = 7;
    ASSERT_EQ(lk_gemm_run_batched(&g, &batch, a, b, NULL, c), LK_EOVERLAP);
    batch.stride_a = -1;
    ASSERT_ERROR(lk_gemm_run_batched(&g, &batch, a, b, NULL, c), LK_EINVAL,
                 "the stride of a is -1");
    batch.count = -1;
    ASSERT_ERROR(lk_gemm_run_batched(&g, &batch, a, b, NULL, c), LK_EINVAL, "count is -1");
}

TEST(another_rounding_is_refused)
{
    const lk_gemm g = good();
    ASSERT_EQ(fesetround(FE_UPWARD), 0);
    const lk_status st = lk_gemm_run(&g, a, b, NULL, c);
    ASSERT_EQ(fesetround(FE_TONEAREST), 0);
    ASSERT_EQ(st, LK_EFPENV);
}

TEST(a_piece_beyond_k_is_all_of_k)
{
    static const int64_t piece[] = {300, INT64_MAX / 2 + 1, INT64_MAX};
    static float x[4 * 300], y[4 * 300], z[16];
    for (int i = 0; i < 4 * 300; i++)
        x[i] = y[i] = 1;
    for (int k = 4; k <= 300; k += 296)
        for (int p = 0; p < 3; p++)
            for (int t = 0; t < 4; t++) {
                lk_gemm g = {
                    .dtype = LK_F32, .trans_a = t & 1, .trans_b = t & 2, .piece = piece[p]};
                g.m = g.n = g.ldc = 4;
                g.k = k;
                g.lda = g.trans_a ? 4 : k;
                g.ldb = g.trans_b ? k : 4;
                ASSERT_OK(lk_gemm_run(&g, x, y, NULL, z));
                for (int i = 0; i < 16; i++)
                    ASSERT_EQ(z[i], k);
            }
}
