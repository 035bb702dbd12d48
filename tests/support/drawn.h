/* Tensors of drawn numbers. */
#ifndef LK_TEST_DRAWN_H
#define LK_TEST_DRAWN_H

#include "real.h"

#include <lockstep/rng.h>
#include <lockstep/tensor.h>

/* Uniform numbers in [-1, 1), or, where `below` is not 0, whole ones of i64 in [0, below). */
static inline lk_tensor *test_drawn(lk_rng rng, lk_dtype dtype, lk_shape shape, int64_t below)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(below ? LK_I64 : dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++) {
        double u = 0;
        ASSERT_OK(lk_rng_uniform_f64(rng, (lk_rng_at){.element = i}, 1, &u));
        if (below)
            ((int64_t *)data)[i] = (int64_t)(u * (double)below);
        else
            real_set(dtype, data, i, 2 * u - 1);
    }
    return t;
}

/* The shape of n samples. */
static inline lk_shape test_batch(int64_t n, lk_shape sample)
{
    lk_shape shape = {.ndim = sample.ndim + 1, .dim = {n}};
    for (int i = 0; i < sample.ndim; i++)
        shape.dim[i + 1] = sample.dim[i];
    return shape;
}

#endif /* LK_TEST_DRAWN_H */
