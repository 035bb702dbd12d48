/* Equality and hash: by bits, and independent of where the elements lie. */
#include "tensors.h"

static uint64_t hash_of(const lk_tensor *t, const char *name)
{
    lk_hash h = lk_hash_start();
    lk_tensor_hash(t, name, &h);
    return lk_hash_value(&h);
}

TEST(a_view_equals_its_copy_and_hashes_alike)
{
    for (int d = 0; d < LK_N_DTYPES; d++) {
        lk_tensor *t, *s, *v, *copy;
        ASSERT_OK(lk_tensor_zeros((lk_dtype)d, LK_SHAPE(5, 3000), &t));
        for (int64_t i = 0; i < 3000; i += 7)
            ASSERT_OK(lk_tensor_set_i64(t, LK_AT(i % 5, i), i % 100));
        ASSERT_OK(lk_tensor_slice(t, 1, 5, 3000, 3, &s));
        ASSERT_OK(lk_tensor_transpose(s, 0, 1, &v));
        ASSERT_OK(lk_tensor_clone(v, (lk_dtype)d, &copy));
        ASSERT_TRUE(lk_tensor_is_equal(v, copy) && lk_tensor_is_equal(copy, v));
        ASSERT_TRUE(!lk_tensor_is_equal(v, s));
        ASSERT_TRUE(hash_of(v, "x") == hash_of(copy, "x"));
        ASSERT_TRUE(hash_of(v, "x") != hash_of(copy, "y"));
        lk_hash h = lk_hash_start();
        ASSERT_OK(
            lk_hash_add_array(&h, "x", (lk_dtype)d, 2, (int64_t[]){999, 5}, lk_tensor_data(copy)));
        ASSERT_TRUE(hash_of(v, "x") == lk_hash_value(&h));
        ASSERT_OK(lk_tensor_set_i64(copy, LK_AT(998, 4), 3)); /* the very last element */
        ASSERT_TRUE(!lk_tensor_is_equal(v, copy));
        ASSERT_TRUE(hash_of(v, "x") != hash_of(copy, "x"));
        lk_tensor_free(copy);
        lk_tensor_free(v);
        lk_tensor_free(s);
        lk_tensor_free(t);
    }
}

TEST(bits_decide_not_values)
{
    static const uint32_t a[2] = {0, 0x7fc00000}, b[2] = {0x80000000, 0x7fc00000};
    lk_tensor *x, *y;
    ASSERT_OK(lk_tensor_wrap_const(LK_F32, LK_SHAPE(2), a, NULL, NULL, &x));
    ASSERT_OK(lk_tensor_wrap_const(LK_F32, LK_SHAPE(2), b, NULL, NULL, &y));
    ASSERT_TRUE(!lk_tensor_is_equal(x, y)); /* +0 and -0 */
    ASSERT_TRUE(lk_tensor_is_equal(x, x));  /* a NaN */
    lk_tensor_free(x);
    lk_tensor_free(y);
}

TEST(other_dtypes_and_shapes_are_not_equal)
{
    lk_tensor *t[4];
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2, 3), &t[0]));
    ASSERT_OK(lk_tensor_zeros(LK_I32, LK_SHAPE(2, 3), &t[1]));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(3, 2), &t[2]));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(0, 3), &t[3]));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            ASSERT_EQ(lk_tensor_is_equal(t[i], t[j]), i == j);
            ASSERT_EQ(hash_of(t[i], "t") == hash_of(t[j], "t"), i == j);
        }
    for (int i = 0; i < 4; i++)
        lk_tensor_free(t[i]);
}
