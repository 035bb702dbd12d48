/* cast: which values and which gradients come through. */
#include "op_values.h"

TEST(gradients_flow_between_f32_and_f64)
{
    struct fixture f = fixture_new();
    const double third = 1.0 / 3;
    lk_var x = fixture_leaf_of(&f, LK_F64, LK_SHAPE(2), (double[]){third, -2}), y, z;
    ASSERT_OK(lk_cast(x, LK_F32, &y));
    ASSERT_TRUE(lk_dtype_of(y) == LK_F32 && lk_needs_grad(y));
    EXPECT(y, LK_SHAPE(2), (double)(float)third, -2);
    ASSERT_OK(lk_cast(y, LK_F64, &z));
    EXPECT(z, LK_SHAPE(2), (double)(float)third, -2);
    backward_from(&f, z, third, 1);
    EXPECT_GRAD(f.grad[0], (double)(float)third, (double)(float)(third + 1)); /* by way of f32 */
    fixture_free(&f);
}

TEST(the_same_dtype_is_the_value_itself)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2), 1, 1), y;
    ASSERT_OK(lk_cast(x, LK_F64, &y));
    ASSERT_TRUE(y.index == x.index);
    fixture_free(&f);
}

TEST(integers_and_16_bits_get_no_gradient)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf_of(&f, LK_F32, LK_SHAPE(3), (double[]){1.75, -1.75, 65504}), i, y;
    static const lk_dtype to[] = {LK_I64, LK_I32, LK_F16, LK_BF16};
    for (int k = 0; k < 4; k++) {
        ASSERT_OK(lk_cast(x, to[k], &i));
        ASSERT_TRUE(lk_dtype_of(i) == to[k] && !lk_needs_grad(i));
        ASSERT_OK(lk_cast(i, k % 2 ? LK_F32 : LK_F64, &y));
        ASSERT_TRUE(!lk_needs_grad(y));
        if (k < 2)
            EXPECT(y, LK_SHAPE(3), 1, -1, 65504);
        else
            EXPECT(y, LK_SHAPE(3), 1.75, -1.75, k == 2 ? 65504 : 65536);
    }
    fixture_free(&f);
}

/* Rounding, overflow, denormals, signs and NaN as tensor.h says, for the machine's conversions. */
TEST(conversions_are_those_of_tensors)
{
    struct fixture f = fixture_new();
    const double x[] = {0.0,
                        -0.0,
                        1 + 0x1p-24,
                        1 + 0x3p-24,
                        1e300,
                        -1e300,
                        0x1p-149,
                        0x1p-150,
                        0x3p-150,
                        1e-45,
                        (double)INFINITY,
                        -(double)INFINITY,
                        0x1.fffffefp127};
    enum { N = sizeof x / sizeof x[0] };
    lk_var v = fixture_leaf_of(&f, LK_F64, LK_SHAPE(N), x), y, z;
    const lk_tensor *got = NULL, *wide = NULL;
    lk_tensor *expected = NULL, *expected_wide = NULL;
    ASSERT_OK(lk_cast(v, LK_F32, &y));
    ASSERT_OK(lk_cast(y, LK_F64, &z));
    ASSERT_OK(lk_value(y, &got));
    ASSERT_OK(lk_value(z, &wide));
    ASSERT_OK(lk_tensor_clone(f.value[0], LK_F32, &expected));
    ASSERT_OK(lk_tensor_clone(expected, LK_F64, &expected_wide));
    ASSERT_TRUE(lk_tensor_is_equal(got, expected));
    ASSERT_TRUE(lk_tensor_is_equal(wide, expected_wide));
    lk_tensor_free(expected);
    lk_tensor_free(expected_wide);
    fixture_free(&f);
}

TEST(a_nan_keeps_sign_and_payload)
{
    struct fixture f = fixture_new();
    const uint64_t bits[2] = {UINT64_C(0xfff8abcde0000000), UINT64_C(0x7ff4000020000000)};
    double x[2];
    memcpy(x, bits, sizeof x);
    lk_tensor *t = NULL, *expected = NULL;
    const lk_tensor *got = NULL;
    lk_var v, y;
    ASSERT_OK(lk_tensor_wrap_const(LK_F64, LK_SHAPE(2), x, NULL, NULL, &t));
    ASSERT_OK(lk_constant(f.tape, t, &v));
    ASSERT_OK(lk_cast(v, LK_F32, &y));
    ASSERT_OK(lk_value(y, &got));
    ASSERT_OK(lk_tensor_clone(t, LK_F32, &expected));
    ASSERT_TRUE(lk_tensor_is_equal(got, expected));
    lk_tensor_free(t);
    lk_tensor_free(expected);
    fixture_free(&f);
}

TEST(strided_and_empty_values_are_cast)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 1, 1), t, y;
    ASSERT_OK(lk_transpose(x, 0, 1, &t));
    ASSERT_OK(lk_cast(t, LK_F32, &y));
    EXPECT(y, LK_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
    ASSERT_OK(lk_cast(t, LK_U8, &y));
    EXPECT(y, LK_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
    ASSERT_OK(lk_slice(x, 1, 1, 1, 1, &t));
    ASSERT_OK(lk_cast(t, LK_I32, &y));
    EXPECT_EMPTY(y, LK_SHAPE(2, 0));
    fixture_free(&f);
}

TEST(what_an_integer_cannot_hold_is_named)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf_of(&f, LK_F64, LK_SHAPE(3), (double[]){1, 256, (double)NAN}), y;
    ASSERT_FAILS(lk_cast(x, LK_U8, &y), LK_EINVAL,
                 "element [1] of tensor f64[3] is 256, which u8 cannot hold");
    ASSERT_TRUE(!lk_is_var(y));
    ASSERT_FAILS(lk_cast(x, LK_I64, &y), LK_EINVAL, "element [2] of tensor f64[3] is nan");
    ASSERT_FAILS(lk_cast(x, (lk_dtype)99, &y), LK_EDTYPE, "cast of f64[3] to dtype number 99");
    ASSERT_FAILS(lk_cast(LK_NO_VAR, LK_F32, &y), LK_EINVAL, "LK_NO_VAR");
    ASSERT_FAILS(lk_cast(x, LK_F32, NULL), LK_EINVAL, "out is NULL");
    fixture_free(&f);
}

static uint64_t cast_run(void)
{
    struct fixture f = fixture_new();
    lk_hash h = lk_hash_start();
    lk_var x = fixture_leaf(&f, LK_SHAPE(230, 311), 1, 0.371), t, y, z;
    ASSERT_OK(lk_transpose(x, 0, 1, &t));
    ASSERT_OK(lk_cast(t, LK_F32, &y));
    ASSERT_OK(lk_cast(y, LK_BF16, &z));
    hash_value(&h, y);
    hash_value(&h, z);
    backward_from(&f, y, 1, 0.3);
    lk_tensor_hash(f.grad[0], "", &h);
    fixture_free(&f);
    return lk_hash_value(&h);
}

TEST(threads_and_instruction_sets_do_not_matter)
{
    expect_same_bits(cast_run);
}
