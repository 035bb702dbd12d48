/* Single elements and fills: values, indices, refusals. */
#include "tensors.h"

#include <math.h>

TEST(elements_are_set_and_read_in_every_dtype)
{
    for (int d = 0; d < LK_N_DTYPES; d++) {
        lk_tensor *t;
        ASSERT_OK(lk_tensor_zeros((lk_dtype)d, LK_SHAPE(2, 3), &t));
        ASSERT_OK(lk_tensor_set_f64(t, LK_AT(1, 2), 7));
        ASSERT_OK(lk_tensor_set_i64(t, LK_AT(0, 1), 200));
        double x;
        int64_t v;
        ASSERT_OK(lk_tensor_get_f64(t, LK_AT(1, 2), &x));
        ASSERT_OK(lk_tensor_get_i64(t, LK_AT(0, 1), &v));
        ASSERT_TRUE(x == 7 && v == 200);
        TEST_EXPECT(t, 0, 200, 0, 0, 0, 7);
        lk_tensor_free(t);
    }
}

TEST(indices_outside_the_shape_are_refused)
{
    lk_tensor *t;
    double x;
    int64_t v;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2, 3), &t));
    ASSERT_FAILS(lk_tensor_get_f64(t, LK_AT(2, 0), &x), LK_EINVAL,
                 "index [2,0] of tensor f32[2,3]");
    ASSERT_FAILS(lk_tensor_get_f64(t, LK_AT(0, -1), &x), LK_EINVAL, "index [0,-1]");
    ASSERT_FAILS(lk_tensor_get_i64(t, LK_AT(0), &v), LK_EINVAL, "index [0] of");
    ASSERT_FAILS(lk_tensor_set_f64(t, LK_AT(0, 0, 0), 1), LK_EINVAL, "index [0,0,0]");
    ASSERT_FAILS(lk_tensor_set_i64(t, LK_AT(INT64_MAX, INT64_MAX), 1), LK_EINVAL, "index [92233");
    ASSERT_FAILS(lk_tensor_get_f64(NULL, LK_AT(0), &x), LK_EINVAL, "t is NULL");
    ASSERT_FAILS(lk_tensor_set_f64(NULL, LK_AT(0), 0), LK_EINVAL, "t is NULL");
    lk_tensor_free(t);
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(0), &t));
    ASSERT_FAILS(lk_tensor_get_f64(t, LK_AT(0), &x), LK_EINVAL, "index [0] of tensor f32[0]");
    lk_tensor_free(t);
}

TEST(values_that_do_not_fit_are_refused)
{
    lk_tensor *t;
    int64_t v;
    ASSERT_OK(lk_tensor_zeros(LK_U8, LK_SHAPE(2), &t));
    ASSERT_FAILS(lk_tensor_set_i64(t, LK_AT(0), 256), LK_EINVAL, "value 256 does not fit in u8");
    ASSERT_FAILS(lk_tensor_set_f64(t, LK_AT(0), -1.5), LK_EINVAL, "value -1.5 does not fit in u8");
    ASSERT_FAILS(lk_tensor_fill_i64(t, -1), LK_EINVAL, "value -1 does not fit in u8");
    ASSERT_FAILS(lk_tensor_fill_f64(t, (double)NAN), LK_EINVAL, "value nan");
    TEST_EXPECT(t, 0, 0);
    lk_tensor_free(t);
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SCALAR, &t));
    ASSERT_OK(lk_tensor_set_f64(t, LK_SCALAR, 1e19));
    ASSERT_FAILS(lk_tensor_get_i64(t, LK_SCALAR, &v), LK_EINVAL, "does not fit in i64");
    lk_tensor_free(t);
}

TEST(large_integers_stay_exact)
{
    lk_tensor *t;
    int64_t v;
    double x;
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(1), &t));
    ASSERT_OK(lk_tensor_set_i64(t, LK_AT(0), INT64_MAX));
    ASSERT_OK(lk_tensor_get_i64(t, LK_AT(0), &v));
    ASSERT_EQ(v, INT64_MAX);
    ASSERT_OK(lk_tensor_get_f64(t, LK_AT(0), &x));
    ASSERT_TRUE(x == 0x1p63);
    lk_tensor_free(t);
}

TEST(a_fill_reaches_all_elements_of_a_view_and_no_others)
{
    for (int d = 0; d < LK_N_DTYPES; d++) {
        lk_tensor *t, *s, *v;
        ASSERT_OK(lk_tensor_zeros((lk_dtype)d, LK_SHAPE(3, 4), &t));
        ASSERT_OK(lk_tensor_slice(t, 1, 1, 4, 2, &s));
        ASSERT_OK(lk_tensor_transpose(s, 0, 1, &v));
        ASSERT_OK(lk_tensor_fill_f64(v, 5));
        TEST_EXPECT(t, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5);
        ASSERT_OK(lk_tensor_fill_i64(t, 9));
        TEST_EXPECT(v, 9, 9, 9, 9, 9, 9);
        lk_tensor_free(v);
        lk_tensor_free(s);
        lk_tensor_free(t);
    }
}

TEST(a_fill_of_any_length_ends_where_the_view_does)
{
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 33, 511, 513, 4095, 4096, 4097, 9000};
    for (size_t k = 0; k < LK_N_DTYPES * sizeof lengths / sizeof lengths[0]; k++) {
        int64_t n = lengths[k / LK_N_DTYPES];
        lk_tensor *t, *v;
        double x;
        ASSERT_OK(lk_tensor_zeros((lk_dtype)(k % LK_N_DTYPES), LK_SHAPE(n + 2), &t));
        ASSERT_OK(lk_tensor_slice(t, 0, 1, n + 1, 1, &v));
        ASSERT_OK(lk_tensor_fill_f64(v, 7));
        for (int64_t i = 0; i < n + 2; i++) {
            ASSERT_OK(lk_tensor_get_f64(t, LK_AT(i), &x));
            ASSERT_TRUE(x == (i > 0 && i <= n ? 7 : 0));
        }
        lk_tensor_free(v);
        lk_tensor_free(t);
    }
}
