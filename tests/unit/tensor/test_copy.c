/* Copies: between views, dtypes and layouts of memory; what they refuse leaves dst untouched. */
#include "tensors.h"

#include <lockstep/extra/alloc.h>

#include <math.h>

TEST(every_dtype_copies_to_every_other)
{
    for (int from = 0; from < LK_N_DTYPES; from++)
        for (int to = 0; to < LK_N_DTYPES; to++)
            for (int64_t n = 0; n < 600; n += 97) { /* small integers: all dtypes hold them */
                lk_tensor *src, *dst, *a, *b;
                ASSERT_OK(lk_tensor_zeros((lk_dtype)from, LK_SHAPE(n, 2), &src));
                ASSERT_OK(lk_tensor_zeros((lk_dtype)to, LK_SHAPE(n, 3), &dst));
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < 2; j++)
                        ASSERT_OK(lk_tensor_set_i64(src, LK_AT(i, j), (i * 2 + j) % 200));
                ASSERT_OK(lk_tensor_slice(src, 1, 1, 2, 1, &a));
                ASSERT_OK(lk_tensor_slice(dst, 1, 1, 2, 1, &b));
                ASSERT_OK(lk_tensor_copy(a, b));
                for (int64_t i = 0; i < n; i++) {
                    int64_t v[3];
                    for (int j = 0; j < 3; j++)
                        ASSERT_OK(lk_tensor_get_i64(dst, LK_AT(i, j), &v[j]));
                    ASSERT_EQ(v[1], (i * 2 + 1) % 200);
                    ASSERT_TRUE(v[0] == 0 && v[2] == 0); /* the neighbours stay */
                }
                lk_tensor_free(a);
                lk_tensor_free(b);
                lk_tensor_free(src);
                lk_tensor_free(dst);
            }
}

TEST(whole_rows_convert_as_single_elements_do)
{
    static const lk_dtype real[] = {LK_F32, LK_F16, LK_BF16, LK_F64};
    enum { N = 1000 };
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = ldexp((double)(test_random(1 << 30) - (1 << 29)), (int)test_random(80) - 60);
    lk_tensor *source;
    ASSERT_OK(lk_tensor_wrap_const(LK_F64, LK_SHAPE(N), x, NULL, NULL, &source));
    for (int f = 0; f < 4; f++)
        for (int g = 0; g < 4; g++) {
            lk_tensor *a, *b;
            ASSERT_OK(lk_tensor_clone(source, real[f], &a));
            ASSERT_OK(lk_tensor_clone(a, real[g], &b));
            for (int i = 0; i < N; i++) {
                double v, w;
                lk_tensor *one;
                ASSERT_OK(lk_tensor_get_f64(a, LK_AT(i), &v));
                ASSERT_OK(lk_tensor_new(real[g], LK_SCALAR, &one));
                ASSERT_OK(lk_tensor_set_f64(one, LK_SCALAR, v));
                ASSERT_OK(lk_tensor_get_f64(one, LK_SCALAR, &v));
                ASSERT_OK(lk_tensor_get_f64(b, LK_AT(i), &w));
                ASSERT_SAME_BITS(&v, &w, sizeof v);
                lk_tensor_free(one);
            }
            lk_tensor_free(a);
            lk_tensor_free(b);
        }
    lk_tensor_free(source);
}

TEST(transposed_and_broadcast_sources_are_copied)
{
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(2, 3)), *v, *dst, *row;
    ASSERT_OK(lk_tensor_new(LK_I64, LK_SHAPE(3, 2), &dst));
    ASSERT_OK(lk_tensor_transpose(t, 0, 1, &v));
    ASSERT_OK(lk_tensor_copy(v, dst));
    TEST_EXPECT(dst, 0, 3, 1, 4, 2, 5);
    lk_tensor_free(v);
    ASSERT_OK(lk_tensor_select(t, 1, 2, &row));
    ASSERT_OK(lk_tensor_broadcast(row, LK_SHAPE(3, 2), &v));
    ASSERT_OK(lk_tensor_copy(v, dst));
    TEST_EXPECT(dst, 2, 5, 2, 5, 2, 5);
    lk_tensor_free(row);
    lk_tensor_free(v);
    lk_tensor_free(dst);
    lk_tensor_free(t);
}

TEST(large_transposes_reach_every_element)
{
    lk_tensor *t = test_iota(LK_I32, LK_SHAPE(3, 37, 50)), *v;
    ASSERT_OK(lk_tensor_permute(t, (int[]){2, 0, 1}, &v));
    for (int d = 0; d < 2; d++) {
        lk_tensor *copy;
        ASSERT_OK(lk_tensor_clone(v, d ? LK_F64 : LK_I32, &copy));
        for (int64_t i = 0; i < 50; i++)
            for (int64_t j = 0; j < 3; j++)
                for (int64_t k = 0; k < 37; k++) {
                    int64_t value;
                    ASSERT_OK(lk_tensor_get_i64(copy, LK_AT(i, j, k), &value));
                    ASSERT_EQ(value, (j * 37 + k) * 50 + i);
                }
        lk_tensor_free(copy);
    }
    lk_tensor_free(v);
    lk_tensor_free(t);
}

TEST(bits_of_one_dtype_stay_as_they_are)
{
    static const uint32_t bits[4] = {0x7f800001, 0xffc12345, 0x80000000, 1}; /* a signalling NaN */
    lk_tensor *t, *copy;
    ASSERT_OK(lk_tensor_wrap_const(LK_F32, LK_SHAPE(4), bits, NULL, NULL, &t));
    ASSERT_OK(lk_tensor_clone(t, LK_F32, &copy));
    ASSERT_SAME_BITS(lk_tensor_data(copy), bits, sizeof bits);
    ASSERT_TRUE(lk_tensor_is_writable(copy));
    lk_tensor_free(copy);
    lk_tensor_free(t);
}

TEST(values_that_do_not_fit_are_named_and_nothing_is_written)
{
    lk_tensor *wide, *t, *whole, *before;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2, 500), &wide));
    ASSERT_OK(lk_tensor_slice(wide, 1, 100, 500, 1, &t)); /* two rows, not one */
    whole = test_iota(LK_I32, LK_SHAPE(2, 400));
    ASSERT_OK(lk_tensor_clone(whole, LK_I32, &before));
    static const double bad[] = {2147483648.0, -2147483904.0, (double)NAN, -(double)INFINITY, 1e30};
    static const char *const text[] = {"2147483648", "-2147483904", "nan", "-inf", "1.00000001504"};
    for (int i = 0; i < 5; i++) {
        char expect[128];
        snprintf(expect, sizeof expect, "element [1,300] of tensor f32[2,400] is %s", text[i]);
        ASSERT_OK(lk_tensor_set_f64(t, LK_AT(1, 300), bad[i]));
        ASSERT_FAILS(lk_tensor_copy(t, whole), LK_EINVAL, expect);
        ASSERT_TRUE(lk_tensor_is_equal(whole, before));
        lk_tensor *none;
        ASSERT_FAILS(lk_tensor_clone(t, LK_I64 - (i == 0 || i == 1), &none), LK_EINVAL, expect);
        ASSERT_TRUE(!none);
    }
    lk_tensor *bytes;
    ASSERT_FAILS(lk_tensor_clone(whole, LK_U8, &bytes), LK_EINVAL,
                 "element [0,256] of tensor i32[2,400] is 256, which u8 cannot hold");
    lk_tensor_free(before);
    lk_tensor_free(whole);
    lk_tensor_free(t);
    lk_tensor_free(wide);
}

/* Looking at all values of a broadcast that no memory can hold would take years. */
TEST(a_copy_needs_its_memory_before_it_looks_at_values)
{
    lk_tensor *t, *none;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2), &t));
    ASSERT_OK(lk_tensor_fill_f64(t, -1));
    ASSERT_FAILS(lk_tensor_clone(t, LK_U8, &none), LK_EINVAL, "element [0] of tensor f32[2]");
    lk_alloc_fail_at(1);
    lk_status st = lk_tensor_clone(t, LK_U8, &none);
    lk_alloc_fail_at(0);
    ASSERT_EQ(st, LK_ENOMEM);
    ASSERT_TRUE(none == NULL);
    lk_tensor_free(t);
}

TEST(shapes_that_differ_are_refused_by_name)
{
    lk_tensor *a, *b, *none;
    ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2, 3), &a));
    ASSERT_OK(lk_tensor_zeros(LK_F64, LK_SHAPE(3, 2), &b));
    ASSERT_FAILS(lk_tensor_copy(a, b), LK_ESHAPE, "src is f32[2,3], dst is f64[3,2]");
    ASSERT_FAILS(lk_tensor_copy(NULL, b), LK_EINVAL, "src is NULL");
    ASSERT_FAILS(lk_tensor_copy(a, NULL), LK_EINVAL, "dst is NULL");
    ASSERT_FAILS(lk_tensor_clone(a, LK_N_DTYPES, &none), LK_EDTYPE, "tensor f32[2,3]");
    ASSERT_FAILS(lk_tensor_clone(NULL, LK_F32, &none), LK_EINVAL, "t is NULL");
    ASSERT_FAILS(lk_tensor_contiguous(NULL, &none), LK_EINVAL, "t is NULL");
    lk_tensor_free(a);
    lk_tensor_free(b);
}

TEST(overlapping_copies_are_refused_but_a_copy_to_itself_is_not)
{
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(8)), *a, *b, *same;
    ASSERT_OK(lk_tensor_slice(t, 0, 0, 5, 1, &a));
    ASSERT_OK(lk_tensor_slice(t, 0, 3, 8, 1, &b));
    ASSERT_FAILS(lk_tensor_copy(a, b), LK_EOVERLAP, "src f32[5] and dst f32[5]");
    ASSERT_OK(lk_tensor_slice(t, 0, 0, 5, 1, &same));
    ASSERT_OK(lk_tensor_copy(a, same));
    TEST_EXPECT(t, 0, 1, 2, 3, 4, 5, 6, 7);
    lk_tensor_free(a);
    lk_tensor_free(b);
    lk_tensor_free(same);
    ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(2, 2, 2), &a));
    ASSERT_OK(lk_tensor_transpose(a, 0, 2, &b)); /* the same elements, in another order */
    ASSERT_FAILS(lk_tensor_copy(a, b), LK_EOVERLAP, "src f32[2,2,2] and dst f32[2,2,2]");
    lk_tensor_free(a);
    lk_tensor_free(b);
    ASSERT_OK(lk_tensor_slice(t, 0, 0, 8, 2, &a));
    ASSERT_OK(lk_tensor_slice(t, 0, 1, 8, 2, &b));
    ASSERT_OK(lk_tensor_copy(a, b)); /* even to odd places: no element in common */
    TEST_EXPECT(t, 0, 0, 2, 2, 4, 4, 6, 6);
    lk_tensor_free(a);
    lk_tensor_free(b);
    lk_tensor_free(t);
}

TEST(other_dtypes_on_the_same_memory_overlap)
{
    double memory[4] = {0};
    lk_tensor *a, *b;
    ASSERT_OK(lk_tensor_wrap(LK_F64, LK_SHAPE(4), memory, NULL, NULL, &a));
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(4), memory, NULL, NULL, &b));
    ASSERT_FAILS(lk_tensor_copy(a, b), LK_EOVERLAP, "src f64[4] and dst f32[4]");
    lk_tensor_free(a);
    lk_tensor_free(b);
}

TEST(contiguous_tensors_are_not_copied)
{
    lk_tensor *t = test_iota(LK_F32, LK_SHAPE(3, 3)), *c, *view;
    ASSERT_OK(lk_tensor_contiguous(t, &c));
    ASSERT_TRUE(c == t);
    lk_tensor_free(c);
    ASSERT_OK(lk_tensor_transpose(t, 0, 1, &view));
    ASSERT_OK(lk_tensor_contiguous(view, &c));
    ASSERT_TRUE(lk_tensor_data(c) != lk_tensor_data(t) && lk_tensor_is_contiguous(c));
    ASSERT_TRUE(lk_tensor_is_equal(c, view));
    lk_tensor_free(c);
    lk_tensor_free(view);
    lk_tensor_free(t);
}
