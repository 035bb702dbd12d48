/* reshape, transpose and slice: the elements, the gradients, and when nothing is copied. */
#include "op_values.h"

static const void *address(lk_var v)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(v, &t));
    return lk_tensor_data(t);
}

TEST(reshape_keeps_the_row_major_order)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 1, 1), y;
    ASSERT_OK(lk_reshape(x, LK_SHAPE(3, 1, 2), &y));
    EXPECT(y, LK_SHAPE(3, 1, 2), 1, 2, 3, 4, 5, 6);
    ASSERT_TRUE(address(x) == address(y));
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 10, 11, 12, 13, 14, 15);
    fixture_free(&f);
}

TEST(reshape_copies_what_cannot_be_a_view)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 1, 1), t, y;
    ASSERT_OK(lk_transpose(x, 0, 1, &t));
    ASSERT_OK(lk_reshape(t, LK_SHAPE(3, 2, 1), &y));
    ASSERT_TRUE(address(x) == address(y)); /* strides allow it */
    ASSERT_OK(lk_reshape(t, LK_SHAPE(6), &y));
    EXPECT(y, LK_SHAPE(6), 1, 4, 2, 5, 3, 6);
    ASSERT_TRUE(address(x) != address(y));
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 10, 12, 14, 11, 13, 15);
    fixture_free(&f);
}

TEST(transpose_moves_axes)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 1, 3), 1, 1), y;
    ASSERT_OK(lk_permute(x, (int[]){2, 0, 1}, &y));
    EXPECT(y, LK_SHAPE(3, 2, 1), 1, 4, 2, 5, 3, 6);
    ASSERT_TRUE(address(x) == address(y));
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 10, 12, 14, 11, 13, 15);
    fixture_free(&f);
}

TEST(transpose_of_two_axes_leaves_the_others)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 2, 2), 0, 1), y;
    ASSERT_OK(lk_transpose(x, 2, 0, &y));
    EXPECT(y, LK_SHAPE(2, 2, 2), 0, 4, 2, 6, 1, 5, 3, 7);
    ASSERT_OK(lk_transpose(x, 1, 1, &y));
    EXPECT(y, LK_SHAPE(2, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7);
    fixture_free(&f);
}

TEST(slice_takes_every_step_th_index)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 7), 0, 1), y;
    ASSERT_OK(lk_slice(x, 1, 1, 7, 3, &y));
    EXPECT(y, LK_SHAPE(2, 2), 1, 4, 8, 11);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 0, 10, 0, 0, 11, 0, 0, 0, 12, 0, 0, 13, 0, 0);
    fixture_free(&f);
}

TEST(slice_with_a_huge_step_takes_one)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(5), 0, 1), y;
    ASSERT_OK(lk_slice(x, 0, 1, 5, INT64_MAX, &y));
    EXPECT(y, LK_SHAPE(1), 1);
    ASSERT_OK(lk_slice(x, 0, 3, 5, 0, &y)); /* 0 is 1 */
    EXPECT(y, LK_SHAPE(2), 3, 4);
    fixture_free(&f);
}

TEST(views_of_views_end_at_the_leaf)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(3, 4), 0, 1), y;
    ASSERT_OK(lk_slice(x, 0, 1, 3, 1, &y));
    ASSERT_OK(lk_transpose(y, 0, 1, &y));
    ASSERT_OK(lk_slice(y, 0, 0, 4, 2, &y));
    EXPECT(y, LK_SHAPE(2, 2), 4, 8, 6, 10);
    ASSERT_TRUE((const double *)address(y) == (const double *)address(x) + 4);
    ASSERT_OK(lk_mul(y, y, &y));
    backward_from(&f, y, 1, 0);
    EXPECT_GRAD(f.grad[0], 0, 0, 0, 0, 8, 0, 12, 0, 16, 0, 20, 0);
    fixture_free(&f);
}

TEST(integers_have_views_too)
{
    struct fixture f = fixture_new();
    lk_var x = INDEX(&f, 1, 2, 3, 4, 5, 6), y;
    ASSERT_OK(lk_reshape(x, LK_SHAPE(2, 3), &y));
    ASSERT_OK(lk_transpose(y, 0, 1, &y));
    ASSERT_OK(lk_slice(y, 0, 1, 3, 1, &y));
    EXPECT(y, LK_SHAPE(2, 2), 2, 5, 3, 6);
    ASSERT_OK(lk_reshape(y, LK_SHAPE(4), &y)); /* a copy */
    EXPECT(y, LK_SHAPE(4), 2, 5, 3, 6);
    fixture_free(&f);
}

TEST(empty_axes_have_views)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 0, 3), 0, 0), w = fixture_leaf(&f, LK_SHAPE(4), 0, 1),
           y, z;
    ASSERT_OK(lk_transpose(x, 0, 2, &y));
    ASSERT_OK(lk_slice(y, 0, 3, 3, 1, &y));
    ASSERT_OK(lk_reshape(y, LK_SHAPE(0, 7), &y));
    EXPECT_EMPTY(y, LK_SHAPE(0, 7));
    ASSERT_OK(lk_slice(w, 0, 4, 4, 2, &z));
    EXPECT_EMPTY(z, LK_SHAPE(0));
    backward_from(&f, z, 1, 0);
    EXPECT_GRAD(f.grad[1], 0, 0, 0, 0);
    backward_from(&f, y, 1, 0);
    fixture_free(&f);
}

TEST(wrong_attributes_are_named)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(2, 3), 0, 1), y;
    ASSERT_FAILS(lk_reshape(x, LK_SHAPE(4), &y), LK_ESHAPE,
                 "reshape of f64[2,3], 6 elements, to [4], 4");
    ASSERT_TRUE(!lk_is_var(y));
    ASSERT_FAILS(lk_reshape(x, LK_SHAPE(-1, 6), &y), LK_EINVAL, "-1");
    ASSERT_FAILS(lk_transpose(x, 0, 2, &y), LK_EINVAL, "transpose of axes 0 and 2 of f64[2,3]");
    ASSERT_FAILS(lk_transpose(x, 5, 7, &y), LK_EINVAL, "axes 5 and 7");
    ASSERT_FAILS(lk_permute(x, (int[]){0, 0}, &y), LK_EINVAL, "f64[2,3]: axis 0 comes twice");
    ASSERT_FAILS(lk_permute(x, (int[]){0, -1}, &y), LK_EINVAL, "along axis -1 of f64[2,3]");
    ASSERT_FAILS(lk_permute(x, NULL, &y), LK_EINVAL, "axes is NULL");
    ASSERT_FAILS(lk_slice(x, 2, 0, 1, 1, &y), LK_EINVAL, "slice along axis 2 of f64[2,3]");
    ASSERT_FAILS(lk_slice(x, 1, 0, 4, 1, &y), LK_EINVAL,
                 "slice 0 to 4 of axis 1 of f64[2,3], which has 3");
    ASSERT_FAILS(lk_slice(x, 1, 2, 1, 1, &y), LK_EINVAL, "slice 2 to 1");
    ASSERT_FAILS(lk_slice(x, 1, 0, 3, -1, &y), LK_EINVAL, "step -1");
    ASSERT_FAILS(lk_transpose(LK_NO_VAR, 0, 1, &y), LK_EINVAL, "LK_NO_VAR");
    ASSERT_FAILS(lk_transpose(x, 0, 1, NULL), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_permute(x, (int[]){1, 0}, NULL), LK_EINVAL, "out is NULL");
    lk_tape_reset(f.tape);
    ASSERT_FAILS(lk_transpose(x, 0, 1, &y), LK_ESTATE, "lk_tape_reset()");
    fixture_free(&f);
}

/* Copies and gradients large enough for several threads. */
static uint64_t views_run(void)
{
    struct fixture f = fixture_new();
    lk_hash h = lk_hash_start();
    lk_var x = fixture_leaf(&f, LK_SHAPE(211, 307), 1, 0.37), y, z;
    ASSERT_OK(lk_transpose(x, 0, 1, &y));
    ASSERT_OK(lk_reshape(y, LK_SHAPE(211 * 307), &y));
    ASSERT_OK(lk_slice(x, 1, 1, 300, 2, &z));
    ASSERT_OK(lk_mul(z, z, &z));
    hash_value(&h, y);
    hash_value(&h, z);
    backward_from(&f, y, 1, 0.5);
    backward_from(&f, z, 2, 0.25);
    lk_tensor_hash(f.grad[0], "", &h);
    fixture_free(&f);
    return lk_hash_value(&h);
}

TEST(threads_and_instruction_sets_do_not_matter)
{
    expect_same_bits(views_run);
}
