/* Reading what programs of tests/data have written: networks with their tensors, loss and gradients, one
 * item a line; for the tests of models that compare themselves with them. */
#ifndef LK_TESTS_WRITTEN_H
#define LK_TESTS_WRITTEN_H

#include "harness.h"

#include <lockstep/nn.h>

enum { MOST_VALUES = 128 };

static inline char *slice_of(const lk_slab *slab, const char *name, int64_t *bytes)
{
    int64_t i;
    lk_slab_slice slice;
    ASSERT_OK(lk_slab_layout_find(lk_slab_layout_of(slab), name, &i));
    ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &slice));
    *bytes = slice.bytes;
    return (char *)lk_slab_data(slab) + slice.offset;
}

/* The numbers behind " : ". */
static inline int read_values(const char *line, double *out)
{
    char *at = strstr(line, " : ");
    int n = 0;
    ASSERT_TRUE(at);
    for (at += 3;; n++) {
        char *end;
        double value = strtod(at, &end);
        if (end == at)
            return n;
        ASSERT_TRUE(n < MOST_VALUES);
        out[n] = value;
        at = end;
    }
}

static inline void numbers_set(lk_dtype dtype, void *data, const double *value, int n)
{
    for (int i = 0; i < n; i++)
        if (dtype == LK_F32)
            ((float *)data)[i] = (float)value[i];
        else if (dtype == LK_F64)
            ((double *)data)[i] = value[i];
        else
            ((int64_t *)data)[i] = (int64_t)value[i];
}

static inline void check_near(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * (1 + fabs(want))))
        TEST_FAIL("%s: %.17g, not %.17g", what, got, want);
}

#endif /* LK_TESTS_WRITTEN_H */
