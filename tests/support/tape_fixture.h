/* A tape with leaves, for tests. */
#ifndef LK_TEST_TAPE_FIXTURE_H
#define LK_TEST_TAPE_FIXTURE_H

#include "harness.h"

#include <lockstep/lockstep.h>

enum { MAX_LEAVES = 8 };

struct fixture {
    lk_tape *tape;
    int n;
    lk_tensor *value[MAX_LEAVES], *grad[MAX_LEAVES];
};

/* An f64 tensor of first, first + step, ... */
static inline lk_tensor *test_filled(lk_shape shape, double first, double step)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(LK_F64, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        ((double *)data)[i] = first + step * (double)i;
    return t;
}

/* Element `i` of a contiguous f64 tensor. */
static inline double test_at(const lk_tensor *t, int64_t i)
{
    ASSERT_TRUE(lk_tensor_is_contiguous(t) && i < lk_tensor_count(t));
    return ((const double *)lk_tensor_data(t))[i];
}

static inline double test_value_at(lk_var v, int64_t i)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(v, &t));
    return test_at(t, i);
}

static inline struct fixture fixture_new(void)
{
    struct fixture f = {0};
    ASSERT_OK(lk_tape_new(&f.tape));
    return f;
}

/* A leaf with a gradient of zeros. */
static inline lk_var fixture_leaf(struct fixture *f, lk_shape shape, double first, double step)
{
    lk_var v;
    ASSERT_TRUE(f->n < MAX_LEAVES);
    f->value[f->n] = test_filled(shape, first, step);
    f->grad[f->n] = test_filled(shape, 0, 0);
    ASSERT_OK(lk_leaf(f->tape, f->value[f->n], f->grad[f->n], &v));
    f->n++;
    return v;
}

/* Backward from the sum of v's elements. */
static inline void fixture_backward(struct fixture *f, lk_var v, unsigned flags)
{
    lk_var sum;
    ASSERT_OK(lk_sum_to(v, LK_SCALAR, &sum));
    ASSERT_OK(lk_backward(f->tape, &(lk_seed){.of = sum}, 1, flags));
}

static inline void fixture_free(struct fixture *f)
{
    lk_tape_free(f->tape);
    for (int i = 0; i < f->n; i++) {
        lk_tensor_free(f->value[i]);
        lk_tensor_free(f->grad[i]);
    }
}

#endif /* LK_TEST_TAPE_FIXTURE_H */
