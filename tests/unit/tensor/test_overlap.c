/* Overlap: against a map of the bytes, and where that is too slow, by construction. */
#include "tensors.h"

enum { MEMORY = 256 };
static int64_t memory[MEMORY / 8];

/* Mark the bytes of t. */
static void bytes_mark(const lk_tensor *t, unsigned char *map)
{
    lk_shape shape = lk_tensor_shape(t);
    int64_t size = (int64_t)lk_dtype_size(lk_tensor_dtype(t));
    for (int64_t i = 0; i < lk_tensor_count(t); i++) {
        int64_t rest = i, at = 0;
        for (int k = shape.ndim - 1; k >= 0; k--) {
            at += rest % shape.dim[k] * lk_tensor_strides(t)[k];
            rest /= shape.dim[k];
        }
        const char *p = (const char *)lk_tensor_data(t) + at * size;
        for (int64_t b = 0; b < size; b++)
            map[p + b - (const char *)memory] = 1;
    }
}

static bool bytes_shared(const lk_tensor *a, const lk_tensor *b)
{
    unsigned char x[MEMORY] = {0}, y[MEMORY] = {0};
    bytes_mark(a, x);
    bytes_mark(b, y);
    for (int i = 0; i < MEMORY; i++)
        if (x[i] && y[i])
            return true;
    return false;
}

/* A random strided view of the memory, in a random dtype. */
static lk_tensor *random_view(void)
{
    lk_dtype dtype = (lk_dtype)test_random(LK_N_DTYPES);
    int64_t n = MEMORY / (int64_t)lk_dtype_size(dtype), rows = INT64_C(1) << test_random(4);
    lk_tensor *t, *v;
    ASSERT_OK(lk_tensor_wrap(dtype, LK_SHAPE(rows, n / rows / 2, 2), memory, NULL, NULL, &t));
    for (int axis = 0; axis < 3; axis++) {
        int64_t dim = lk_tensor_shape(t).dim[axis], start = test_random(dim);
        int64_t stop = start + 1 + test_random(dim - start);
        ASSERT_OK(lk_tensor_slice(t, axis, start, stop, 1 + test_random(4), &v));
        lk_tensor_free(t);
        t = v;
    }
    ASSERT_OK(lk_tensor_transpose(t, (int)test_random(3), (int)test_random(3), &v));
    lk_tensor_free(t);
    return v;
}

TEST(the_answer_is_exact_for_small_views)
{
    int shared = 0, apart = 0;
    for (int i = 0; i < 20000; i++) {
        lk_tensor *a = random_view(), *b = random_view();
        bool expect = bytes_shared(a, b);
        if (lk_tensor_overlap(a, b) != expect || lk_tensor_overlap(b, a) != expect)
            TEST_FAIL("%s and %s: %d", lk_tensor_text(a).s, lk_tensor_text(b).s, expect);
        shared += expect;
        apart += !expect;
        lk_tensor_free(a);
        lk_tensor_free(b);
    }
    ASSERT_TRUE(shared > 1000 && apart > 1000);
}

TEST(columns_and_rows_of_a_large_matrix_are_told_apart)
{
    lk_tensor *t, *left, *right, *top, *bottom, *turned;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(1000, 600), &t));
    ASSERT_OK(lk_tensor_slice(t, 1, 0, 300, 1, &left));
    ASSERT_OK(lk_tensor_slice(t, 1, 300, 600, 1, &right));
    ASSERT_OK(lk_tensor_slice(t, 0, 0, 500, 1, &top));
    ASSERT_OK(lk_tensor_slice(t, 0, 500, 1000, 1, &bottom));
    ASSERT_OK(lk_tensor_transpose(left, 0, 1, &turned));
    ASSERT_TRUE(!lk_tensor_overlap(left, right) && !lk_tensor_overlap(top, bottom));
    ASSERT_TRUE(!lk_tensor_overlap(turned, right));
    ASSERT_TRUE(lk_tensor_overlap(left, top) && lk_tensor_overlap(turned, left));
    ASSERT_TRUE(lk_tensor_overlap(t, right) && lk_tensor_overlap(t, t));
    lk_tensor_free(turned);
    lk_tensor_free(bottom);
    lk_tensor_free(top);
    lk_tensor_free(right);
    lk_tensor_free(left);
    lk_tensor_free(t);
}

TEST(channels_of_an_image_are_told_apart)
{
    lk_tensor *t, *a, *b, *even, *odd;
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(8, 32, 32, 64), &t));
    ASSERT_OK(lk_tensor_slice(t, 3, 0, 63, 3, &a));
    ASSERT_OK(lk_tensor_slice(t, 3, 1, 64, 3, &b));
    ASSERT_TRUE(!lk_tensor_overlap(a, b) && lk_tensor_overlap(a, a));
    ASSERT_OK(lk_tensor_slice(t, 1, 0, 32, 2, &even));
    ASSERT_OK(lk_tensor_slice(t, 1, 1, 32, 2, &odd));
    ASSERT_TRUE(!lk_tensor_overlap(even, odd) && lk_tensor_overlap(even, b));
    lk_tensor_free(odd);
    lk_tensor_free(even);
    lk_tensor_free(b);
    lk_tensor_free(a);
    lk_tensor_free(t);
}

TEST(different_steps_meet_only_where_their_divisor_allows)
{
    lk_tensor *t, *fours, *sixes, *odd;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(100000), &t));
    ASSERT_OK(lk_tensor_slice(t, 0, 0, 100000, 4, &fours));
    ASSERT_OK(lk_tensor_slice(t, 0, 2, 100000, 6, &sixes));
    ASSERT_OK(lk_tensor_slice(t, 0, 3, 100000, 6, &odd));
    ASSERT_TRUE(lk_tensor_overlap(fours, sixes) && lk_tensor_overlap(sixes, fours));
    ASSERT_TRUE(!lk_tensor_overlap(fours, odd) && !lk_tensor_overlap(odd, fours));
    lk_tensor_free(odd);
    lk_tensor_free(sixes);
    lk_tensor_free(fours);
    lk_tensor_free(t);
}

TEST(tensors_without_elements_and_other_memory_never_overlap)
{
    lk_tensor *t, *empty, *other, *wide;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(4, 4), &t));
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(4, 4), &other));
    ASSERT_OK(lk_tensor_slice(t, 0, 2, 2, 1, &empty));
    ASSERT_OK(lk_tensor_broadcast(t, LK_SHAPE(INT64_C(1) << 50, 4, 4), &wide));
    ASSERT_TRUE(!lk_tensor_overlap(t, empty) && !lk_tensor_overlap(empty, empty));
    ASSERT_TRUE(!lk_tensor_overlap(t, other));
    ASSERT_TRUE(lk_tensor_overlap(t, wide) && !lk_tensor_overlap(other, wide));
    lk_tensor_free(wide);
    lk_tensor_free(empty);
    lk_tensor_free(other);
    lk_tensor_free(t);
}
