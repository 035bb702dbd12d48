/* What ops compute, compared with numbers. */
#ifndef LK_TEST_OP_VALUES_H
#define LK_TEST_OP_VALUES_H

#include "tape_fixture.h"

#include <lockstep/extra/isa.h>

/* The elements of `t`, whatever its dtype and strides, are exactly these. */
static inline void expect_elements(const lk_tensor *t, lk_shape shape, const double *expected,
                                   int64_t n)
{
    lk_tensor *dense = NULL;
    if (!lk_shape_is_equal(lk_tensor_shape(t), shape))
        TEST_FAIL("the shape is %s, not %s", lk_tensor_text(t).s, lk_shape_text(shape).s);
    ASSERT_EQ(lk_tensor_count(t), n);
    ASSERT_OK(lk_tensor_clone(t, LK_F64, &dense));
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&expected[i], (const double *)lk_tensor_data(dense) + i, sizeof(double)) != 0)
            TEST_FAIL("element %lld is %.17g, not %.17g", (long long)i, test_at(dense, i),
                      expected[i]);
    lk_tensor_free(dense);
}

static inline void expect_value(lk_var v, lk_shape shape, const double *expected, int64_t n)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(v, &t));
    expect_elements(t, shape, expected, n);
}

/* EXPECT(v, LK_SHAPE(2, 2), 1, 2, 3, 4): exactly these elements, in row-major order. */
#define EXPECT(v, shape, ...)                       \
    expect_value(v, shape, (double[]){__VA_ARGS__}, \
                 (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))
#define EXPECT_EMPTY(v, shape) expect_value(v, shape, NULL, 0)
#define EXPECT_GRAD(tensor, ...)                                                    \
    expect_elements(tensor, lk_tensor_shape(tensor), (const double[]){__VA_ARGS__}, \
                    (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* Backward from v with the seed first, first + step, ... */
static inline void backward_from(struct fixture *f, lk_var v, double first, double step)
{
    lk_tensor *seed = test_filled(lk_shape_of(v), first, step), *cast = NULL;
    ASSERT_OK(lk_tensor_clone(seed, lk_dtype_of(v), &cast));
    ASSERT_OK(lk_backward(f->tape, &(lk_seed){v, cast}, 1, 0));
    lk_tensor_free(seed);
    lk_tensor_free(cast);
}

/* A leaf of `dtype` with these elements, and a gradient of zeros. */
static inline lk_var fixture_leaf_of(struct fixture *f, lk_dtype dtype, lk_shape shape,
                                     const double *x)
{
    lk_var v;
    ASSERT_TRUE(f->n < MAX_LEAVES);
    lk_tensor *t = test_filled(shape, 0, 0);
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        ((double *)(uintptr_t)lk_tensor_data(t))[i] = x[i];
    ASSERT_OK(lk_tensor_clone(t, dtype, &f->value[f->n]));
    ASSERT_OK(lk_tensor_zeros(dtype, shape, &f->grad[f->n]));
    ASSERT_OK(lk_leaf(f->tape, f->value[f->n], f->grad[f->n], &v));
    f->n++;
    lk_tensor_free(t);
    return v;
}

/* A constant i64 vector. */
static inline lk_var fixture_index(struct fixture *f, const int64_t *index, int64_t n)
{
    lk_var v;
    lk_tensor *wrapped = NULL, *t = NULL;
    ASSERT_OK(lk_tensor_wrap_const(LK_I64, LK_SHAPE(n), index, NULL, NULL, &wrapped));
    ASSERT_OK(lk_tensor_clone(wrapped, LK_I64, &t));
    ASSERT_OK(lk_constant(f->tape, t, &v));
    lk_tensor_free(wrapped);
    lk_tensor_free(t);
    return v;
}
#define INDEX(f, ...)                                \
    fixture_index(f, (const int64_t[]){__VA_ARGS__}, \
                  (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* `run` gives the same hash at 1, 2 and 4 threads and with every instruction set. */
static inline void expect_same_bits(uint64_t (*run)(void))
{
    uint64_t first = 0;
    bool have = false;
    lk_isa before;
    ASSERT_OK(lk_isa_now(&before));
    for (int isa = 0; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        for (int n = 1; n <= 4; n *= 2) {
            ASSERT_OK(lk_threads_set(n));
            uint64_t bits = run();
            if (have && bits != first)
                TEST_FAIL("%s with %d threads gives other bits", lk_isa_name((lk_isa)isa), n);
            first = bits;
            have = true;
        }
    }
    ASSERT_OK(lk_isa_set(before));
    ASSERT_OK(lk_threads_set(0));
}

/* Add the elements of a value to a hash. */
static inline void hash_value(lk_hash *h, lk_var v)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(v, &t));
    lk_tensor_hash(t, "", h);
}

#endif /* LK_TEST_OP_VALUES_H */
