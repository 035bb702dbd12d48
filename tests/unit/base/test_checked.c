/* Checked arithmetic at the edges of 64 bits. */
#include "harness.h"

#include <lockstep/extra/checked.h>

TEST(results_that_fit_are_exact)
{
    int64_t v;
    ASSERT_OK(lk_add_i64(INT64_MAX - 1, 1, &v));
    ASSERT_EQ(v, INT64_MAX);
    ASSERT_OK(lk_add_i64(INT64_MIN + 1, -1, &v));
    ASSERT_EQ(v, INT64_MIN);
    ASSERT_OK(lk_mul_i64(-(INT64_C(1) << 62), 2, &v));
    ASSERT_EQ(v, INT64_MIN);
    ASSERT_OK(lk_mul_i64(INT64_C(3037000499), 3037000499, &v));
    ASSERT_EQ(v, INT64_C(9223372030926249001));
}

TEST(results_that_do_not_fit_name_both_operands)
{
    int64_t v = 5;
    ASSERT_FAILS(lk_add_i64(INT64_MAX, 1, &v), LK_EOVERFLOW, "9223372036854775807 + 1");
    ASSERT_FAILS(lk_add_i64(INT64_MIN, -1, &v), LK_EOVERFLOW, "-9223372036854775808 + -1");
    ASSERT_FAILS(lk_mul_i64(3037000500, 3037000500, &v), LK_EOVERFLOW, "3037000500 * 3037000500");
    ASSERT_FAILS(lk_mul_i64(INT64_MIN, -1, &v), LK_EOVERFLOW, "* -1");
    ASSERT_EQ(v, 5);
}

TEST(rounding_up_reaches_the_next_multiple)
{
    static const int64_t cases[][3] = {{0, 64, 0},    {1, 64, 64}, {64, 64, 64},
                                       {65, 64, 128}, {7, 1, 7},   {INT64_MAX, 1, INT64_MAX}};
    int64_t v;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ASSERT_OK(lk_round_up_i64(cases[i][0], cases[i][1], &v));
        ASSERT_EQ(v, cases[i][2]);
    }
    ASSERT_FAILS(lk_round_up_i64(INT64_MAX, 64, &v), LK_EOVERFLOW, "+ 1");
    ASSERT_FAILS(lk_round_up_i64(-1, 64, &v), LK_EINVAL, "-1 rounded up");
    ASSERT_FAILS(lk_round_up_i64(1, 0, &v), LK_EINVAL, "multiple of 0");
}

TEST(a_product_with_a_zero_is_zero_however_large_the_rest)
{
    const int64_t big = INT64_C(1) << 40;
    int64_t v;
    ASSERT_OK(lk_product_i64(0, NULL, &v));
    ASSERT_EQ(v, 1);
    ASSERT_OK(lk_product_i64(3, (int64_t[]){2, 3, 7}, &v));
    ASSERT_EQ(v, 42);
    ASSERT_OK(lk_product_i64(3, (int64_t[]){big, big, 0}, &v));
    ASSERT_EQ(v, 0);
    ASSERT_OK(lk_product_i64(3, (int64_t[]){0, big, big}, &v));
    ASSERT_EQ(v, 0);
    ASSERT_OK(lk_product_i64(2, (int64_t[]){INT64_C(1) << 31, (INT64_C(1) << 32) - 1}, &v));
    ASSERT_EQ(v, INT64_MAX - 0x7fffffff);
    ASSERT_FAILS(lk_product_i64(3, (int64_t[]){2, big, big}, &v), LK_EOVERFLOW,
                 "2 x 1099511627776 x 1099511627776");
    ASSERT_FAILS(lk_product_i64(3, (int64_t[]){big, big, big}, &v), LK_EOVERFLOW, " x ");
    ASSERT_FAILS(lk_product_i64(3, (int64_t[]){0, 5, -2}, &v), LK_EINVAL, "size 2 is -2");
    ASSERT_FAILS(lk_product_i64(-1, NULL, &v), LK_EINVAL, "-1 factors");
    ASSERT_FAILS(lk_product_i64(2, NULL, &v), LK_EINVAL, "2 factors, which are NULL");
}
