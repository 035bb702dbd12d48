/* gather_index and scatter_index. */
#include "op_values.h"

TEST(gather_takes_what_the_index_names)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(3, 2), 1, 1), i = INDEX(&f, 2, 0, 2, 2), y;
    ASSERT_OK(lk_gather_index(x, 0, i, &y));
    EXPECT(y, LK_SHAPE(4, 2), 5, 6, 1, 2, 5, 6, 5, 6);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 12, 13, 0, 0, 10 + 14 + 16, 11 + 15 + 17);
    fixture_free(&f);
}

TEST(gather_works_along_inner_axes_and_on_views)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(3, 2), 1, 1), i = INDEX(&f, 1, 2), t, y;
    ASSERT_OK(lk_transpose(x, 0, 1, &t));
    ASSERT_OK(lk_gather_index(t, 1, i, &y));
    EXPECT(y, LK_SHAPE(2, 2), 3, 5, 4, 6);
    backward_from(&f, y, 10, 1);
    EXPECT_GRAD(f.grad[0], 0, 0, 10, 12, 11, 13);
    fixture_free(&f);
}

TEST(scatter_adds_in_order_from_zero)
{
    struct fixture f = fixture_new();
    const double big = 0x1p24, v[] = {big, 1, 1, -0.0};
    lk_var x = fixture_leaf_of(&f, LK_F32, LK_SHAPE(4), v), y;
    ASSERT_OK(lk_scatter_index(x, 0, INDEX(&f, 1, 1, 1, 0), 3, &y));
    EXPECT(y, LK_SHAPE(3), 0.0, big, 0.0); /* big + 1 rounds to big, twice; 0 + -0 is 0 */
    lk_var z;
    const double other[] = {1, 1, big, 3};
    x = fixture_leaf_of(&f, LK_F32, LK_SHAPE(4), other);
    ASSERT_OK(lk_scatter_index(x, 0, INDEX(&f, 1, 1, 1, 0), 3, &z));
    EXPECT(z, LK_SHAPE(3), 3, big + 2, 0.0);
    backward_from(&f, z, 7, 1);
    EXPECT_GRAD(f.grad[1], 8, 8, 8, 7);
    fixture_free(&f);
}

TEST(narrow_indices_and_other_dtypes_are_taken)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(3), 1, 1), i = INDEX(&f, 2, 0), narrow, y;
    ASSERT_OK(lk_cast(i, LK_I32, &narrow));
    ASSERT_OK(lk_gather_index(x, 0, narrow, &y));
    EXPECT(y, LK_SHAPE(2), 3, 1);
    backward_from(&f, y, 5, 1);
    EXPECT_GRAD(f.grad[0], 6, 0, 5);
    ASSERT_OK(lk_gather_index(i, 0, INDEX(&f, 1, 1, 0), &y));
    EXPECT(y, LK_SHAPE(3), 0, 0, 2);
    fixture_free(&f);
}

TEST(nothing_is_gathered_from_and_scattered_to_nothing)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(0, 2), 1, 1), w = fixture_leaf(&f, LK_SHAPE(2, 2), 1, 1),
           none = fixture_index(&f, (const int64_t[]){0}, 0), y;
    ASSERT_OK(lk_gather_index(x, 0, none, &y));
    EXPECT_EMPTY(y, LK_SHAPE(0, 2));
    ASSERT_OK(lk_gather_index(w, 0, none, &y));
    EXPECT_EMPTY(y, LK_SHAPE(0, 2));
    backward_from(&f, y, 1, 0);
    EXPECT_GRAD(f.grad[1], 0, 0, 0, 0);
    ASSERT_OK(lk_scatter_index(x, 0, none, 2, &y));
    EXPECT(y, LK_SHAPE(2, 2), 0, 0, 0, 0);
    ASSERT_OK(lk_scatter_index(x, 0, none, 0, &y));
    EXPECT_EMPTY(y, LK_SHAPE(0, 2));
    fixture_free(&f);
}

TEST(wrong_indices_are_named)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(3, 2), 1, 1), v = fixture_leaf(&f, LK_SHAPE(2), 0, 1), y;
    ASSERT_FAILS(lk_gather_index(x, 0, INDEX(&f, 0, 3), &y), LK_EINVAL,
                 "gather_index: index 3 at [1] of i64[2] is not in [0, 3)");
    ASSERT_TRUE(!lk_is_var(y));
    ASSERT_FAILS(lk_gather_index(x, 1, INDEX(&f, -1), &y), LK_EINVAL,
                 "index -1 at [0] of i64[1] is not in [0, 2)");
    ASSERT_FAILS(lk_scatter_index(x, 0, INDEX(&f, 0, 1, 5), 5, &y), LK_EINVAL,
                 "scatter_index: index 5 at [2] of i64[3] is not in [0, 5)");
    ASSERT_FAILS(lk_gather_index(x, 2, INDEX(&f, 0), &y), LK_EINVAL, "axis 2 of f64[3,2]");
    ASSERT_FAILS(lk_gather_index(x, 0, v, &y), LK_EDTYPE, "f64[3,2] by f64[2]");
    lk_var matrix;
    ASSERT_OK(lk_reshape(INDEX(&f, 0, 1), LK_SHAPE(1, 2), &matrix));
    ASSERT_FAILS(lk_gather_index(x, 0, matrix, &y), LK_ESHAPE, "by i64[1,2]");
    ASSERT_FAILS(lk_scatter_index(x, 0, INDEX(&f, 0, 1), 3, &y), LK_ESHAPE,
                 "axis 0 of f64[3,2] by i64[2]");
    ASSERT_FAILS(lk_scatter_index(x, 0, INDEX(&f, 0, 1, 1), -3, &y), LK_EINVAL, "size -3");
    ASSERT_FAILS(lk_scatter_index(INDEX(&f, 0), 0, INDEX(&f, 0), 3, &y), LK_EDTYPE, "i64[1]");
    fixture_free(&f);
}

TEST(a_changed_index_is_found_by_backward)
{
    struct fixture f = fixture_new();
    lk_var x = fixture_leaf(&f, LK_SHAPE(3), 1, 1), i, y;
    lk_tensor *index = NULL;
    ASSERT_OK(lk_tensor_zeros(LK_I64, LK_SHAPE(2), &index));
    ASSERT_OK(lk_constant(f.tape, index, &i));
    ASSERT_OK(lk_gather_index(x, 0, i, &y));
    ASSERT_OK(lk_sum_to(y, LK_SCALAR, &y));
    ASSERT_OK(lk_tensor_fill_i64(index, 1));
    ASSERT_FAILS(lk_backward(f.tape, &(lk_seed){.of = y}, 1, 0), LK_ESTATE,
                 "input 1 of gather_index");
    lk_tensor_free(index);
    fixture_free(&f);
}

/* Many duplicates, several threads. */
static uint64_t index_run(void)
{
    struct fixture f = fixture_new();
    lk_hash h = lk_hash_start();
    static int64_t index[5000];
    for (int i = 0; i < 5000; i++)
        index[i] = i * 7 % 130 % 13;
    lk_var x = fixture_leaf(&f, LK_SHAPE(3, 13, 90), 0.1, 0.37), y, narrow;
    lk_var i = fixture_index(&f, index, 5000);
    ASSERT_OK(lk_gather_index(x, 1, i, &y));
    ASSERT_OK(lk_cast(y, LK_F32, &narrow));
    ASSERT_OK(lk_scatter_index(narrow, 1, i, 13, &narrow));
    hash_value(&h, y);
    hash_value(&h, narrow);
    backward_from(&f, y, 1, 0.3);
    lk_tensor_hash(f.grad[0], "", &h);
    fixture_free(&f);
    return lk_hash_value(&h);
}

TEST(threads_and_instruction_sets_do_not_matter)
{
    expect_same_bits(index_run);
}
