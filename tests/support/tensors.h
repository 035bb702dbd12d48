/* Small helpers for tests of tensors. */
#ifndef LK_TEST_TENSORS_H
#define LK_TEST_TENSORS_H

#include "harness.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/tensor.h>

/* A tensor whose elements are 0, 1, 2, ... in row-major order. */
static inline lk_tensor *test_iota(lk_dtype dtype, lk_shape shape)
{
    lk_tensor *t;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    lk_tensor *flat;
    ASSERT_OK(lk_tensor_reshape(t, LK_SHAPE(lk_tensor_count(t)), &flat));
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        ASSERT_OK(lk_tensor_set_i64(flat, LK_AT(i), i));
    lk_tensor_free(flat);
    return t;
}

/* The elements of t in row-major order are `count` integers. */
static inline void test_expect(const lk_tensor *t, int64_t count, const int64_t *values)
{
    ASSERT_EQ(lk_tensor_count(t), count);
    lk_shape shape = lk_tensor_shape(t);
    for (int64_t i = 0; i < count; i++) {
        lk_shape at = shape;
        int64_t rest = i, value;
        for (int k = shape.ndim - 1; k >= 0; k--) {
            at.dim[k] = rest % shape.dim[k];
            rest /= shape.dim[k];
        }
        ASSERT_OK(lk_tensor_get_i64(t, at, &value));
        ASSERT_EQ(value, values[i]);
    }
}

#define TEST_EXPECT(t, ...) \
    test_expect(t, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

/* "f32[2,3]" and the like. */
static inline void test_expect_text(const lk_tensor *t, const char *text)
{
    if (strcmp(lk_tensor_text(t).s, text) != 0)
        TEST_FAIL("a tensor is %s, not %s", lk_tensor_text(t).s, text);
}

/* Numbers for tests that try many cases: a fixed sequence, from 0 to n - 1. */
static inline int64_t test_random(int64_t n)
{
    static uint64_t state = 88172645463325252U;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % (uint64_t)n);
}

#endif /* LK_TEST_TENSORS_H */
