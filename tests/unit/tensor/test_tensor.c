/* Shapes, and tensors as objects: making, sharing, wrapping, describing, refusing. */
#include "faults.h"
#include "tensors.h"

#include <pthread.h>

TEST(a_shape_counts_its_elements)
{
    int64_t n;
    ASSERT_OK(lk_shape_count(LK_SCALAR, &n));
    ASSERT_EQ(n, 1);
    ASSERT_OK(lk_shape_count(LK_SHAPE(2, 3, 4), &n));
    ASSERT_EQ(n, 24);
    ASSERT_OK(lk_shape_count(LK_SHAPE(INT64_C(1) << 40, 0, INT64_C(1) << 40), &n));
    ASSERT_EQ(n, 0);
}

TEST(shapes_that_cannot_be_are_refused_by_name)
{
    int64_t n;
    lk_shape nine = {9, {1, 1, 1, 1, 1, 1, 1, 1}};
    ASSERT_FAILS(lk_shape_count(nine, &n), LK_EINVAL, "0 to 8 axes, not 9");
    ASSERT_FAILS(lk_shape_count((lk_shape){-1, {0}}, &n), LK_EINVAL, "not -1");
    ASSERT_FAILS(lk_shape_count(LK_SHAPE(2, -3, 0), &n), LK_EINVAL,
                 "axis 1 of shape [2,-3,0] is negative");
    ASSERT_FAILS(lk_shape_count(LK_SHAPE(INT64_C(1) << 32, INT64_C(1) << 31), &n), LK_EOVERFLOW,
                 "shape [4294967296,2147483648] has more elements than can be counted");
}

TEST(shapes_compare_by_their_axes)
{
    lk_shape a = LK_SHAPE(2, 3), b = LK_SHAPE(2, 3, 7);
    ASSERT_TRUE(!lk_shape_is_equal(a, b));
    b.ndim = 2; /* what is beyond ndim does not count */
    ASSERT_TRUE(lk_shape_is_equal(a, b));
    ASSERT_TRUE(!lk_shape_is_equal(a, LK_SHAPE(3, 2)));
    ASSERT_TRUE(lk_shape_is_equal(LK_SCALAR, LK_SCALAR));
}

TEST(texts_name_dtype_and_shape)
{
    ASSERT_TRUE(strcmp(lk_shape_text(LK_SHAPE(2, 3)).s, "[2,3]") == 0);
    ASSERT_TRUE(strcmp(lk_shape_text(LK_SCALAR).s, "[]") == 0);
    const int64_t x = INT64_MIN;
    ASSERT_EQ(strlen(lk_shape_text(LK_SHAPE(x, x, x, x, x, x, x, x)).s), 8 * 20 + 9);
    ASSERT_TRUE(strcmp(lk_tensor_text(NULL).s, "NULL") == 0);
    lk_tensor *t;
    ASSERT_OK(lk_tensor_new(LK_BF16, LK_SHAPE(0, 7), &t));
    test_expect_text(t, "bf16[0,7]");
    lk_tensor_free(t);
}

TEST(new_tensors_are_aligned_contiguous_and_writable)
{
    for (int d = 0; d < LK_N_DTYPES; d++) {
        lk_tensor *t;
        void *data;
        ASSERT_OK(lk_tensor_zeros((lk_dtype)d, LK_SHAPE(3, 5, 7), &t));
        ASSERT_EQ(lk_tensor_dtype(t), d);
        ASSERT_EQ(lk_tensor_count(t), 105);
        ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(t), LK_SHAPE(3, 5, 7)));
        ASSERT_EQ(lk_tensor_strides(t)[0], 35);
        ASSERT_EQ(lk_tensor_strides(t)[1], 7);
        ASSERT_EQ(lk_tensor_strides(t)[2], 1);
        ASSERT_TRUE(lk_tensor_is_contiguous(t) && lk_tensor_is_writable(t));
        ASSERT_EQ((uintptr_t)lk_tensor_data(t) % LK_ALIGN, 0);
        ASSERT_OK(lk_tensor_writable_data(t, &data));
        ASSERT_TRUE(data == lk_tensor_data(t));
        static const char zeros[105 * 8];
        ASSERT_SAME_BITS(data, zeros, 105 * lk_dtype_size((lk_dtype)d));
        lk_tensor_free(t);
    }
}

TEST(tensors_without_elements_are_fine)
{
    lk_tensor *t;
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(INT64_C(1) << 60, 0, INT64_C(1) << 60), &t));
    ASSERT_EQ(lk_tensor_count(t), 0);
    ASSERT_TRUE(lk_tensor_is_contiguous(t));
    ASSERT_OK(lk_tensor_fill_f64(t, 1));
    lk_tensor_free(t);
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(0), NULL, NULL, NULL, &t));
    ASSERT_TRUE(lk_tensor_data(t));
    lk_tensor_free(t);
}

TEST(tensors_that_cannot_be_are_refused_by_name)
{
    lk_tensor *t;
    ASSERT_FAILS(lk_tensor_new(LK_N_DTYPES, LK_SHAPE(2), &t), LK_EDTYPE, "tensor [2]");
    ASSERT_FAILS(lk_tensor_new((lk_dtype)-1, LK_SHAPE(2), &t), LK_EDTYPE, "dtype number -1");
    ASSERT_FAILS(lk_tensor_zeros(LK_F32, LK_SHAPE(2, -1), &t), LK_EINVAL, "axis 1 of shape [2,-1]");
    ASSERT_FAILS(lk_tensor_new(LK_F32, LK_SHAPE(INT64_C(1) << 61), &t), LK_EOVERFLOW,
                 "the bytes of a tensor f32[2305843009213693952]");
    ASSERT_FAILS(lk_tensor_new(LK_U8, LK_SHAPE(INT64_MAX, 2), &t), LK_EOVERFLOW, "807,2]");
    ASSERT_TRUE(!t);
    lk_tensor_free(NULL);
    ASSERT_TRUE(!lk_tensor_retain(NULL));
    void *data;
    ASSERT_FAILS(lk_tensor_writable_data(NULL, &data), LK_EINVAL, "t is NULL");
}

static void note_release(void *context)
{
    ++*(int *)context;
}

TEST(wrapped_memory_is_released_after_its_last_view)
{
    float memory[6] = {0, 1, 2, 3, 4, 5};
    int released = 0;
    lk_tensor *t, *view, *again;
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(2, 3), memory, note_release, &released, &t));
    ASSERT_OK(lk_tensor_select(t, 0, 1, &view));
    ASSERT_TRUE(lk_tensor_data(view) == memory + 3);
    again = lk_tensor_retain(view);
    ASSERT_TRUE(again == view);
    lk_tensor_free(t);
    ASSERT_OK(lk_tensor_set_f64(view, LK_AT(2), 50));
    ASSERT_TRUE(memory[5] == 50);
    lk_tensor_free(view);
    ASSERT_EQ(released, 0);
    lk_tensor_free(again);
    ASSERT_EQ(released, 1);
}

TEST(const_memory_is_read_only_and_so_are_its_views)
{
    static const int32_t memory[3] = {7, 8, 9};
    lk_tensor *t, *view;
    void *data;
    ASSERT_OK(lk_tensor_wrap_const(LK_I32, LK_SHAPE(3), memory, NULL, NULL, &t));
    ASSERT_OK(lk_tensor_slice(t, 0, 1, 3, 1, &view));
    ASSERT_TRUE(!lk_tensor_is_writable(t) && !lk_tensor_is_writable(view));
    TEST_EXPECT(view, 8, 9);
    ASSERT_FAILS(lk_tensor_writable_data(view, &data), LK_EINVAL, "tensor i32[2] is read-only");
    ASSERT_FAILS(lk_tensor_set_i64(view, LK_AT(0), 1), LK_EINVAL, "tensor i32[2] is read-only");
    ASSERT_FAILS(lk_tensor_fill_f64(view, 1), LK_EINVAL, "tensor i32[2] is read-only");
    ASSERT_FAILS(lk_tensor_copy(t, t), LK_EINVAL, "dst i32[3] is read-only");
    lk_tensor_free(view);
    lk_tensor_free(t);
}

TEST(memory_that_cannot_be_wrapped_is_refused)
{
    double memory[3];
    int released = 0;
    lk_tensor *t;
    ASSERT_FAILS(lk_tensor_wrap(LK_F64, LK_SHAPE(3), NULL, note_release, &released, &t), LK_EINVAL,
                 "data is NULL for a tensor f64[3]");
    ASSERT_FAILS(lk_tensor_wrap(LK_F64, LK_SHAPE(2), (char *)memory + 4, NULL, NULL, &t), LK_EINVAL,
                 "not aligned to the 8 bytes of f64");
    ASSERT_FAILS(lk_tensor_wrap(LK_F64, LK_SHAPE(-2), memory, note_release, &released, &t),
                 LK_EINVAL, "[-2]");
    ASSERT_EQ(released, 0);
}

static int wraps_released;

static lk_status makes_wraps_and_views(void)
{
    static float memory[12];
    lk_status st;
    lk_tensor *t = NULL, *w = NULL, *v[3] = {NULL, NULL, NULL};
    wraps_released = 0;
    LK_TRY_TO(done, lk_tensor_zeros(LK_F32, LK_SHAPE(3, 4), &t));
    LK_TRY_TO(done,
              lk_tensor_wrap(LK_F32, LK_SHAPE(4, 3), memory, note_release, &wraps_released, &w));
    LK_TRY_TO(done, lk_tensor_transpose(w, 0, 1, &v[0]));
    LK_TRY_TO(done, lk_tensor_copy(v[0], t));
    LK_TRY_TO(done, lk_tensor_contiguous(v[0], &v[1]));
    LK_TRY_TO(done, lk_tensor_clone(v[0], LK_F16, &v[2]));
done:
    lk_tensor_free(t);
    int expect = w != NULL;
    lk_tensor_free(w);
    for (int i = 0; i < 3; i++)
        lk_tensor_free(v[i]);
    ASSERT_EQ(wraps_released, expect);
    return st;
}

TEST(every_failed_allocation_leaves_nothing_behind)
{
    ASSERT_TRUE(test_every_allocation_fails(makes_wraps_and_views) >= 12);
}

enum { THREADS = 4, ROUNDS = 5000 };

static void *share(void *tensor)
{
    lk_tensor *t = tensor, *view;
    for (int i = 0; i < ROUNDS; i++) {
        lk_tensor *mine = lk_tensor_retain(t);
        if (lk_tensor_slice(mine, 0, 0, 1, 1, &view) != LK_OK)
            return tensor;
        lk_tensor_free(mine);
        lk_tensor_free(view);
    }
    lk_tensor_free(t);
    return NULL;
}

TEST(threads_share_a_tensor_and_the_last_one_frees_it)
{
    static float memory[2];
    int released = 0;
    lk_tensor *t;
    pthread_t thread[THREADS];
    int64_t live = lk_alloc_stats_now().live_blocks;
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(2), memory, note_release, &released, &t));
    for (int i = 0; i < THREADS; i++)
        ASSERT_EQ(pthread_create(&thread[i], NULL, share, lk_tensor_retain(t)), 0);
    lk_tensor_free(t);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        ASSERT_EQ(pthread_join(thread[i], &failed), 0);
        ASSERT_TRUE(!failed);
    }
    ASSERT_EQ(released, 1);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, live);
}
