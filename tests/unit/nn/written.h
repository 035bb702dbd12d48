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

/* A model of layers, each a type and its options, up to NULL. */
static inline lk_model *listed_model(const char *const *layers, const lk_model_spec *spec)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    for (; *layers; layers += 2)
        ASSERT_OK(lk_model_add(m, layers[0], layers[1]));
    ASSERT_OK(lk_model_build(m, spec));
    return m;
}

/* A network with its tensors: x, c, and gradients of sum(c y). */
typedef struct written {
    char options[256]; /* of a named model */
    lk_model *model;
    lk_accumulator *sums;
    lk_tensor *x, *dx, *c;
} written;

/* The elements that a line is about: x, c or a parameter, or the gradient of it. */
static inline void *elements_of(const written *w, const char *name, bool gradient, int n)
{
    lk_tensor *t = strcmp(name, "x") == 0 ? w->x : strcmp(name, "c") == 0 ? w->c : NULL;
    int64_t bytes, size = (int64_t)lk_dtype_size(lk_tensor_dtype(w->x));
    void *data = NULL;
    if (!t) {
        data = slice_of(gradient ? lk_accumulator_slab(w->sums) : lk_model_params(w->model), name,
                        &bytes);
        ASSERT_EQ(bytes, n * size);
        return data;
    }
    ASSERT_EQ(lk_tensor_count(t), n);
    ASSERT_OK(lk_tensor_writable_data(gradient ? w->dx : t, &data));
    return data;
}

#endif /* LK_TESTS_WRITTEN_H */
