/* For tests of multi_node.h: a model of two weights and a bias, as ChainerMN's tests have it, with values
 * that tell which rank they are of. */
#ifndef LK_TEST_MULTI_NODES_H
#define LK_TEST_MULTI_NODES_H

#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/multi_node.h>

enum { TENSORS = 3 };

static inline lk_slab *model_of(lk_dtype dtype)
{
    lk_slab_layout *layout;
    lk_slab *slab;
    ASSERT_OK(lk_slab_layout_new(&layout));
    ASSERT_OK(lk_slab_layout_add(layout, "a.W", dtype, LK_SHAPE(3, 2)));
    ASSERT_OK(lk_slab_layout_add(layout, "b.W", dtype, LK_SHAPE(4, 3)));
    ASSERT_OK(lk_slab_layout_add(layout, "c.b", dtype, LK_SHAPE(5)));
    ASSERT_OK(lk_slab_new(layout, &slab));
    lk_slab_layout_free(layout);
    return slab;
}

/* All elements of tensor i. */
static inline void tensor_fill(lk_slab *slab, int64_t i, double value)
{
    lk_tensor *t;
    ASSERT_OK(lk_slab_tensor(slab, i, &t));
    ASSERT_OK(lk_tensor_fill_f64(t, value));
    lk_tensor_free(t);
}

/* Tensor i has the value x + i. */
static inline void model_fill(lk_slab *slab, double x)
{
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slab)); i++)
        tensor_fill(slab, i, x + (double)i);
}

/* Every element of tensor i is `value`, rounded to its dtype. */
static inline void tensor_expect(const lk_slab *slab, int64_t i, double value, const char *what)
{
    lk_slab_slice slice;
    ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &slice));
    const char *at = (const char *)lk_slab_data(slab) + slice.offset;
    for (int64_t k = 0; k < slice.count; k++) {
        double got = slice.dtype == LK_F64 ? ((const double *)(const void *)at)[k]
                                           : (double)((const float *)(const void *)at)[k];
        double want = slice.dtype == LK_F64 ? value : (double)(float)value;
        if (got != want)
            TEST_FAIL("%s: %s[%lld] is %.9g in place of %.9g", what, slice.name, (long long)k, got,
                      want);
    }
}

static inline void model_expect(const lk_slab *slab, double x, const char *what)
{
    for (int64_t i = 0; i < TENSORS; i++)
        tensor_expect(slab, i, x + (double)i, what);
}

#endif /* LK_TEST_MULTI_NODES_H */
