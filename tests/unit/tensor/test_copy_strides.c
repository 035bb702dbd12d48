/* Copies of strided tensors, compared with loops over indices: all orders of axes, odd sizes, repeated and
 * skipped elements, every element size, instruction set and number of threads. */
#include "guard.h"
#include "tensors.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>

enum { MAX_AXES = 4, N_SIZES = 4 };
enum { SKIP = TEST_SLOWNESS > 1 ? 3 : 1 }; /* one of so many cases that are alike */

static const lk_dtype of_size[N_SIZES] = {LK_U8, LK_BF16, LK_F32, LK_F64}; /* 1 << i bytes */

/* Bytes that differ from their neighbours far and near: some elements are NaNs that signal. */
static void bytes_fill(unsigned char *bytes, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(((uint64_t)i + seed) * 0x9e3779b97f4a7c15U >> 56);
}

/* dst holds the elements of src, which are read through their addresses alone. */
static void expect_copied(const lk_tensor *src, const lk_tensor *dst)
{
    const lk_shape s = lk_tensor_shape(src);
    const int64_t *from = lk_tensor_strides(src), *to = lk_tensor_strides(dst);
    const int64_t size = (int64_t)lk_dtype_size(lk_tensor_dtype(src));
    const char *a = lk_tensor_data(src), *b = lk_tensor_data(dst);
    for (int64_t i = 0; i < lk_tensor_count(src); i++) {
        int64_t rest = i, at = 0, other = 0;
        for (int d = s.ndim - 1; d >= 0; d--) {
            at += rest % s.dim[d] * from[d];
            other += rest % s.dim[d] * to[d];
            rest /= s.dim[d];
        }
        if (memcmp(a + at * size, b + other * size, (size_t)size) != 0)
            TEST_FAIL("element %lld of a copy of %s differs", (long long)i, lk_tensor_text(src).s);
    }
}

/* A tensor of its own memory with any bytes. */
static lk_tensor *any_bytes(lk_dtype dtype, lk_shape shape, uint64_t seed)
{
    lk_tensor *t;
    void *data;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    bytes_fill(data, lk_tensor_count(t) * (int64_t)lk_dtype_size(dtype), seed);
    return t;
}

/* The middle of an axis of `t`, by steps; frees t. */
static lk_tensor *sliced(lk_tensor *t, int axis, int64_t start, int64_t stop, int64_t step)
{
    lk_tensor *part;
    ASSERT_OK(lk_tensor_slice(t, axis, start, stop, step, &part));
    lk_tensor_free(t);
    return part;
}

/* Run with each instruction set that is there. */
static void with_all_isas(void (*run)(void))
{
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa++)
        if (lk_isa_is_available((lk_isa)isa)) {
            ASSERT_OK(lk_isa_set((lk_isa)isa));
            run();
        }
    ASSERT_OK(lk_isa_set(best));
}

/* Copies of `view` into a tensor of its own and into every other index of one axis of a larger one, whose
 * other elements stay. */
static void copy_both_ways(lk_tensor *view)
{
    lk_tensor *dense, *wide, *part, *before;
    lk_shape shape = lk_tensor_shape(view);
    const int last = shape.ndim - 1;
    ASSERT_OK(lk_tensor_clone(view, lk_tensor_dtype(view), &dense));
    expect_copied(view, dense);
    shape.dim[last] = 2 * shape.dim[last] + 1;
    wide = any_bytes(lk_tensor_dtype(view), shape, 77);
    ASSERT_OK(lk_tensor_clone(wide, lk_tensor_dtype(view), &before));
    ASSERT_OK(lk_tensor_slice(wide, last, 1, shape.dim[last], 2, &part));
    ASSERT_OK(lk_tensor_copy(view, part));
    expect_copied(view, part);
    lk_tensor_free(part);
    part = sliced(wide, last, 0, shape.dim[last], 2);
    before = sliced(before, last, 0, shape.dim[last], 2);
    expect_copied(before, part);
    lk_tensor_free(before);
    lk_tensor_free(part);
    lk_tensor_free(dense);
}

static void copy_all_orders(void)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int k = 0; k < 256; k++) {
            const int axes[MAX_AXES] = {k & 3, k >> 2 & 3, k >> 4 & 3, k >> 6};
            if ((1 << axes[0] | 1 << axes[1] | 1 << axes[2] | 1 << axes[3]) != 15 || (k + i) % SKIP)
                continue;
            lk_tensor *t = any_bytes(of_size[i], LK_SHAPE(3, 67, 2, 70), (uint64_t)k), *view;
            ASSERT_OK(lk_tensor_permute(t, axes, &view));
            copy_both_ways(view);
            lk_tensor_free(view);
            lk_tensor_free(t);
        }
}

TEST(all_orders_of_axes_are_copied)
{
    with_all_isas(copy_all_orders);
}

/* Both operands end at the end of a page. */
static void transpose_guarded(lk_dtype dtype, int64_t m, int64_t n)
{
    const size_t bytes = (size_t)(m * n) * lk_dtype_size(dtype);
    struct guard from = guard_new(bytes), to = guard_new(bytes);
    lk_tensor *src, *dst, *view;
    bytes_fill(from.data, (int64_t)bytes, (uint64_t)m);
    ASSERT_OK(lk_tensor_wrap(dtype, LK_SHAPE(m, n), from.data, NULL, NULL, &src));
    ASSERT_OK(lk_tensor_wrap(dtype, LK_SHAPE(n, m), to.data, NULL, NULL, &dst));
    ASSERT_OK(lk_tensor_transpose(src, 0, 1, &view));
    ASSERT_OK(lk_tensor_copy(view, dst));
    expect_copied(view, dst);
    lk_tensor_free(view);
    lk_tensor_free(dst);
    lk_tensor_free(src);
    guard_free(&to);
    guard_free(&from);
}

static void transpose_odd_sizes(void)
{
    static const int64_t size[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 129, 257};
    const int n = sizeof size / sizeof size[0];
    for (int i = 0; i < N_SIZES; i++)
        for (int a = 0; a < n; a++)
            for (int b = a % SKIP; b < n; b += SKIP)
                transpose_guarded(of_size[i], size[a], size[b]);
}

TEST(transposes_of_odd_sizes_stay_within_their_memory)
{
    with_all_isas(transpose_odd_sizes);
}

static void copy_repeated(void)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int ones = 0; ones < 16; ones++) { /* axes of one element, which are repeated */
            lk_shape shape = LK_SHAPE(3, 35, 2, 70), small = shape;
            for (int d = 0; d < MAX_AXES; d++)
                small.dim[d] = ones >> d & 1 ? 1 : shape.dim[d];
            lk_tensor *t = any_bytes(of_size[i], small, 5), *view, *turned;
            ASSERT_OK(lk_tensor_broadcast(t, shape, &view));
            copy_both_ways(view);
            ASSERT_OK(lk_tensor_permute(view, (int[]){3, 1, 0, 2}, &turned));
            copy_both_ways(turned);
            lk_tensor_free(turned);
            lk_tensor_free(view);
            lk_tensor_free(t);
        }
}

TEST(repeated_elements_are_copied_along_any_axes)
{
    with_all_isas(copy_repeated);
}

/* Last axes of 2 to 16 bytes that both sides have, at places that are no multiples of them. */
static void copy_short_rows(void)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int64_t n = 1; n <= 17; n += SKIP)
            for (int64_t gap = 0; gap < 3; gap++) {
                lk_tensor *t = any_bytes(of_size[i], LK_SHAPE(19, 37, n + gap), 9), *view;
                t = sliced(t, 2, gap / 2, gap / 2 + n, 1);
                ASSERT_OK(lk_tensor_transpose(t, 0, 1, &view));
                copy_both_ways(view);
                lk_tensor_free(view);
                t = sliced(t, 1, 1, 36, 3);
                copy_both_ways(t);
                lk_tensor_free(t);
            }
}

/* Pairs side by side in rows that begin at odd places: no transpose of elements twice as large. */
static void copy_odd_pairs(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        lk_tensor *t = any_bytes(of_size[i], LK_SHAPE(67, 2 * 70 + 1), 6), *pairs, *view;
        t = sliced(t, 1, 0, 2 * 70, 1);
        ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(67, 70, 2), &pairs));
        ASSERT_OK(lk_tensor_transpose(pairs, 0, 1, &view));
        copy_both_ways(view);
        lk_tensor_free(view);
        lk_tensor_free(pairs);
        lk_tensor_free(t);
    }
}

TEST(short_rows_move_as_they_are)
{
    with_all_isas(copy_short_rows);
    with_all_isas(copy_odd_pairs);
}

/* Above the size from which stores go around the cache; rows of dst begin at lines, and beside them. */
static void copy_large(void)
{
    enum { ROWS = 2049, COLS = 1088 };
    for (int64_t start = 0; start < 2; start++) {
        lk_tensor *t = any_bytes(LK_F32, LK_SHAPE(ROWS, COLS), 3), *wide, *dst, *view, *row;
        wide = any_bytes(LK_F32, LK_SHAPE(ROWS, COLS + 16), 4);
        dst = sliced(wide, 1, start, start + COLS, 1);
        ASSERT_OK(lk_tensor_copy(t, dst));
        expect_copied(t, dst);
        ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(COLS, ROWS), &row));
        ASSERT_OK(lk_tensor_transpose(row, 0, 1, &view));
        ASSERT_OK(lk_tensor_copy(view, dst));
        expect_copied(view, dst);
        lk_tensor_free(view);
        lk_tensor_free(row);
        t = sliced(t, 1, 5, 6, 1);
        ASSERT_OK(lk_tensor_broadcast(t, LK_SHAPE(ROWS, COLS), &view));
        ASSERT_OK(lk_tensor_copy(view, dst));
        expect_copied(view, dst);
        lk_tensor_free(view);
        lk_tensor_free(dst);
        lk_tensor_free(t);
    }
}

TEST(large_copies_are_the_same_by_any_number_of_threads)
{
    for (int threads = 1; threads <= 4; threads += SKIP) {
        ASSERT_OK(lk_threads_set(threads));
        with_all_isas(copy_large);
    }
    ASSERT_OK(lk_threads_set(0));
}

TEST(conversions_are_the_same_by_any_number_of_threads)
{
    lk_tensor *t = test_iota(LK_I32, LK_SHAPE(130, 257)), *view, *one, *more;
    ASSERT_OK(lk_tensor_transpose(t, 0, 1, &view));
    for (int turned = 0; turned < 2; turned++) {
        ASSERT_OK(lk_threads_set(1));
        ASSERT_OK(lk_tensor_clone(turned ? view : t, LK_F64, &one));
        for (int64_t i = 0; i < lk_tensor_count(t); i++) {
            const double at = ((const double *)lk_tensor_data(one))[i];
            ASSERT_TRUE(at == (double)(turned ? i % 130 * 257 + i / 130 : i));
        }
        for (int threads = 2; threads <= 4; threads++) {
            ASSERT_OK(lk_threads_set(threads));
            ASSERT_OK(lk_tensor_clone(turned ? view : t, LK_F64, &more));
            ASSERT_TRUE(lk_tensor_is_equal(one, more));
            lk_tensor_free(more);
        }
        lk_tensor_free(one);
    }
    ASSERT_OK(lk_threads_set(0));
    lk_tensor_free(view);
    lk_tensor_free(t);
}

TEST(fills_reach_all_elements_of_a_part_and_no_other)
{
    lk_tensor *t, *part;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(1500, 3000), &t)); /* two thirds are above 8 MiB */
    ASSERT_OK(lk_tensor_slice(t, 1, 501, 2500, 1, &part));
    ASSERT_OK(lk_tensor_fill_f64(part, 1.5));
    const float *x = lk_tensor_data(t);
    for (int64_t i = 0; i < 1500 * 3000; i++)
        ASSERT_TRUE(x[i] == (i % 3000 >= 501 && i % 3000 < 2500 ? 1.5F : 0));
    lk_tensor_free(part);
    lk_tensor_free(t);
}
