/* concat, stack, pad and copy. */
#include "op_values.h"

TEST(concat_joins_along_an_axis)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 1), 1, 1), w = fixture_leaf(&f, LK_SHAPE(2, 2), 10, 1),
           y;
    ASSERT_OK(lk_concat((lk_var[]){x, w, x}, 3, 1, &y));
    EXPECT(y, LK_SHAPE(2, 4), 1, 10, 11, 1, 2, 12, 13, 2);
    backward_from(&f, y, 100, 1);
    EXPECT_GRAD(f.grad[0], 100 + 103, 104 + 107);
    EXPECT_GRAD(f.grad[1], 101, 102, 105, 106);
    fixture_free(&f);
}

TEST(concat_takes_strided_and_empty_values)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 1, 1), none, t, y;
    ASSERT_OK(lk_transpose(x, 0, 1, &t));
    ASSERT_OK(lk_slice(t, 0, 1, 1, 1, &none));
    ASSERT_OK(lk_concat((lk_var[]){none, t, none}, 3, 0, &y));
    EXPECT(y, LK_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 10, 12, 14, 11, 13, 15);
    fixture_free(&f);
}

TEST(concat_takes_many_values_and_needs_none_of_them_later)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(1), 3, 0), many[50], y;
    for (int i = 0; i < 50; i++)
        many[i] = x;
    ASSERT_OK(lk_concat(many, 50, 0, &y));
    ASSERT_EQ(test_value_at(y, 49), 3);
    ASSERT_OK(lk_tensor_fill_f64(f.value[0], 4)); /* changes no gradient */
    backward_from(&f, y, 1, 1);
    ASSERT_EQ(test_at(f.grad[0], 0), 50 * 51 / 2);
    fixture_free(&f);
}

TEST(concat_gives_constants_no_gradient)
{
    struct fixture f = fixture_new();
    lk_var in[2];
    ASSERT_OK(lk_full(f.tape, LK_F64, LK_SHAPE(2), 7, &in[0]));
    in[1] = fixture_leaf(&f, LK_SHAPE(1), 3, 0);
    ASSERT_OK(lk_concat(in, 2, 0, &in[0])); /* the output may take the place of an input */
    EXPECT(in[0], LK_SHAPE(3), 7, 7, 3);
    backward_from(&f, in[0], 1, 1);
    EXPECT_GRAD(f.grad[0], 3);
    fixture_free(&f);
}

TEST(stack_adds_an_axis_anywhere)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2), 1, 1), w = fixture_leaf(&f, LK_SHAPE(2), 10, 1), y;
    ASSERT_OK(lk_stack((lk_var[]){x, w}, 2, 0, &y));
    EXPECT(y, LK_SHAPE(2, 2), 1, 2, 10, 11);
    ASSERT_OK(lk_stack((lk_var[]){x, w, x}, 3, 1, &y));
    EXPECT(y, LK_SHAPE(2, 3), 1, 10, 1, 2, 11, 2);
    backward_from(&f, y, 100, 1);
    EXPECT_GRAD(f.grad[0], 100 + 102, 103 + 105);
    EXPECT_GRAD(f.grad[1], 101, 104);
    fixture_free(&f);
}

TEST(stack_of_scalars_is_a_vector)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SCALAR, 1, 0), w = fixture_leaf(&f, LK_SCALAR, 2, 0), y;
    ASSERT_OK(lk_stack((lk_var[]){x, w, x}, 3, 0, &y));
    EXPECT(y, LK_SHAPE(3), 1, 2, 1);
    backward_from(&f, y, 1, 1);
    EXPECT_GRAD(f.grad[0], 4);
    EXPECT_GRAD(f.grad[1], 2);
    fixture_free(&f);
}

TEST(pad_surrounds_with_a_value)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 2), 1, 1), y;
    ASSERT_OK(lk_pad(x, &(lk_pad_attr){{1, 0}, {0, 2}, -0.5}, &y));
    EXPECT(y, LK_SHAPE(3, 4), -0.5, -0.5, -0.5, -0.5, 1, 2, -0.5, -0.5, 3, 4, -0.5, -0.5);
    backward_from(&f, y, 0, 1);
    EXPECT_GRAD(f.grad[0], 4, 5, 8, 9);
    fixture_free(&f);
}

TEST(pad_of_nothing_is_its_value)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(0, 2), 1, 1), s = fixture_leaf(&f, LK_SCALAR, 5, 0), y;
    ASSERT_OK(lk_pad(x, &(lk_pad_attr){{1, 0}, {0}, 3}, &y));
    EXPECT(y, LK_SHAPE(1, 2), 3, 3);
    ASSERT_OK(lk_pad(s, &(lk_pad_attr){{1, 1}, {0}, 3}, &y));
    EXPECT(y, LK_SCALAR, 5);
    backward_from(&f, y, 1, 0);
    EXPECT_GRAD(f.grad[1], 1);
    fixture_free(&f);
}

TEST(integers_are_joined_too)
{
    struct fixture f = fixture_new();
    lk_var x = INDEX(&f, 1, 2), y;
    ASSERT_OK(lk_concat((lk_var[]){x, x}, 2, 0, &y));
    EXPECT(y, LK_SHAPE(4), 1, 2, 1, 2);
    ASSERT_OK(lk_stack((lk_var[]){x, x}, 2, 1, &y));
    EXPECT(y, LK_SHAPE(2, 2), 1, 1, 2, 2);
    ASSERT_OK(lk_pad(x, &(lk_pad_attr){{1}, {1}, -7}, &y));
    EXPECT(y, LK_SHAPE(4), -7, 1, 2, -7);
    ASSERT_FAILS(lk_pad(x, &(lk_pad_attr){{1}, {1}, 1e300}, &y), LK_EINVAL, "i64");
    fixture_free(&f);
}

TEST(copy_makes_elements_dense)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 1, 1), t, y, z;
    const lk_tensor *dense = NULL;
    ASSERT_OK(lk_transpose(x, 0, 1, &t));
    ASSERT_OK(lk_contiguous(t, &y));
    ASSERT_OK(lk_value(y, &dense));
    ASSERT_TRUE(lk_tensor_is_contiguous(dense));
    EXPECT(y, LK_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
    ASSERT_OK(lk_contiguous(y, &z)); /* nothing to do */
    ASSERT_TRUE(z.index == y.index && z.serial == y.serial);
    ASSERT_OK(lk_copy(y, &z));
    ASSERT_TRUE(z.index != y.index);
    backward_from(&f, z, 10, 1);
    EXPECT_GRAD(f.grad[0], 10, 12, 14, 11, 13, 15);
    fixture_free(&f);
}

TEST(wrong_operands_are_named)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 0, 1), w = fixture_leaf(&f, LK_SHAPE(2, 4), 0, 1),
           s = fixture_leaf(&f, LK_SHAPE(3), 0, 1), i = INDEX(&f, 1, 2, 3), y;
    lk_var deep = fixture_leaf(&f, LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), 0, 1);
    ASSERT_FAILS(lk_concat((lk_var[]){x, w}, 2, 0, &y), LK_ESHAPE,
                 "concat along axis 0 of f64[2,3], input 0, and f64[2,4], input 1");
    ASSERT_FAILS(lk_concat((lk_var[]){x, s}, 2, 0, &y), LK_ESHAPE, "f64[3], input 1");
    ASSERT_FAILS(lk_concat((lk_var[]){s, i}, 2, 0, &y), LK_EDTYPE, "i64[3], input 1");
    ASSERT_FAILS(lk_concat((lk_var[]){x, w}, 2, 2, &y), LK_EINVAL, "along axis 2 of f64[2,3]");
    ASSERT_FAILS(lk_concat(NULL, 2, 2, &y), LK_EINVAL, "x is NULL");
    ASSERT_FAILS(lk_concat(&x, 0, 2, &y), LK_EINVAL, "0 values");
    ASSERT_TRUE(!lk_is_var(y));
    ASSERT_FAILS(lk_stack((lk_var[]){x, w}, 2, 0, &y), LK_ESHAPE, "f64[2,4], input 1");
    ASSERT_FAILS(lk_stack((lk_var[]){s, i}, 2, 0, &y), LK_EDTYPE, "i64[3], input 1");
    ASSERT_FAILS(lk_stack((lk_var[]){x, x}, 2, 3, &y), LK_EINVAL, "axis 3 of f64[2,3]");
    ASSERT_FAILS(lk_stack(&deep, 1, 0, &y), LK_ESHAPE, "one more than 8 axes");
    ASSERT_FAILS(lk_stack(&x, -1, 0, &y), LK_EINVAL, "-1 values");
    ASSERT_FAILS(lk_pad(x, &(lk_pad_attr){{0, -1}, {0}, 0}, &y), LK_EINVAL,
                 "axis 1 of f64[2,3] with -1 elements before");
    ASSERT_FAILS(lk_pad(x, &(lk_pad_attr){{INT64_MAX}, {1}, 0}, &y), LK_EOVERFLOW, "axis 0");
    ASSERT_FAILS(lk_pad(x, NULL, &y), LK_EINVAL, "attr is NULL");
    ASSERT_FAILS(lk_concat(&x, 1, 0, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_stack(&x, 1, 0, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_contiguous(x, NULL), LK_EINVAL, "out is NULL");
    fixture_free(&f);
}

/* Large enough for several threads. */
static uint64_t joins_run(void)
{
    struct fixture f = fixture_new();
    lk_hash h = lk_hash_start();
    lk_var x = fixture_leaf(&f, LK_SHAPE(97, 211), 1, 0.37), t, y;
    ASSERT_OK(lk_transpose(x, 0, 1, &t));
    ASSERT_OK(lk_concat((lk_var[]){t, t, t}, 3, 1, &y));
    ASSERT_OK(lk_stack((lk_var[]){y, y}, 2, 1, &y));
    ASSERT_OK(lk_pad(y, &(lk_pad_attr){{3, 1, 2}, {1, 0, 1}, 0.3}, &y));
    hash_value(&h, y);
    backward_from(&f, y, 1, 0.5);
    lk_tensor_hash(f.grad[0], "", &h);
    fixture_free(&f);
    return lk_hash_value(&h);
}

TEST(threads_and_instruction_sets_do_not_matter)
{
    expect_same_bits(joins_run);
}
