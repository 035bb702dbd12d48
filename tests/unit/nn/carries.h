/* A recurrent net whose times are cut into parts, each with a model of its own and the same parameters. */
#ifndef LK_TEST_CARRIES_H
#define LK_TEST_CARRIES_H

#include "faults.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { MOST_PARTS = 4, MOST_CARRIES = 8, FEATURES = 2, SEED = 5 };

/* A model for each part of the times, all with the same parameters, and what goes through them. */
struct net {
    lk_dtype dtype;
    int n, carries;
    bool reverse; /* the last part is run first */
    lk_model *model[MOST_PARTS];
    lk_accumulator *sums[MOST_PARTS];
    lk_tensor *x[MOST_PARTS], *dx[MOST_PARTS], *c[MOST_PARTS], *y[MOST_PARTS];
    lk_tensor *first[MOST_CARRIES], *dfirst[MOST_CARRIES], *d[MOST_CARRIES], *last[MOST_CARRIES];
};

static inline lk_tensor *drawn(lk_dtype dtype, lk_shape shape, const char *purpose, int number)
{
    lk_tensor *t = NULL, *out = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(LK_F64, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    ASSERT_OK(lk_rng_uniform_f64(lk_rng_start(SEED, "carry", purpose),
                                 (lk_rng_at){.sample = number}, lk_tensor_count(t), data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        ((double *)data)[i] = 2 * ((double *)data)[i] - 1;
    ASSERT_OK(lk_tensor_clone(t, dtype, &out));
    lk_tensor_free(t);
    return out;
}

/* Times first <= t < last of [samples, times, ...]. */
static inline lk_tensor *times_of(lk_tensor *t, int64_t first, int64_t last)
{
    lk_tensor *part = NULL;
    ASSERT_OK(lk_tensor_slice(t, 1, first, last, 1, &part));
    return part;
}

static inline lk_model *model_of(const char *const *layers, lk_dtype dtype, int64_t times)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    for (; *layers; layers += 2)
        ASSERT_OK(lk_model_add(m, layers[0], layers[1]));
    ASSERT_OK(lk_model_build(
        m,
        &(lk_model_spec){.in = {dtype, LK_SHAPE(times, FEATURES)}, .dtype = dtype, .seed = SEED}));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

/* `times` [n] are those of the parts; x, first, c and d depend on their sum alone. */
static inline struct net net_new(const char *const *layers, lk_dtype dtype, int64_t samples,
                                 const int64_t *times, int n)
{
    struct net s = {.dtype = dtype, .n = n, .reverse = layers[1] && strstr(layers[1], "reverse")};
    int64_t all = 0, at = 0;
    for (int k = 0; k < n; k++)
        all += times[k];
    lk_tensor *x = drawn(dtype, LK_SHAPE(samples, all, FEATURES), "x", 0), *dx = NULL, *c = NULL;
    ASSERT_OK(lk_tensor_zeros(dtype, lk_tensor_shape(x), &dx));
    for (int k = 0; k < n; k++) {
        s.model[k] = model_of(layers, dtype, times[k]);
        ASSERT_OK(lk_accumulator_new(s.model[k], &s.sums[k]));
        s.x[k] = times_of(x, at, at + times[k]);
        s.dx[k] = times_of(dx, at, at + times[k]);
        if (k == 0) {
            lk_shape out = lk_model_out(s.model[k]).shape;
            c = drawn(dtype, LK_SHAPE(samples, out.ndim == 1 ? n : all, out.dim[out.ndim - 1]), "c",
                      0);
        }
        bool one = lk_model_out(s.model[k]).shape.ndim == 1;
        s.c[k] = one ? times_of(c, k, k + 1) : times_of(c, at, at + times[k]);
        at += times[k];
    }
    s.carries = (int)lk_model_carries(s.model[0]);
    ASSERT_TRUE(s.carries > 0 && s.carries <= MOST_CARRIES);
    for (int i = 0; i < s.carries; i++) {
        lk_carry_info info;
        ASSERT_OK(lk_model_carry(s.model[0], i, &info));
        ASSERT_EQ(info.type.dtype, dtype);
        ASSERT_EQ(info.type.shape.ndim, 1);
        lk_shape shape = LK_SHAPE(samples, info.type.shape.dim[0]);
        s.first[i] = drawn(dtype, shape, "first", i);
        s.d[i] = drawn(dtype, shape, "d", i);
        ASSERT_OK(lk_tensor_zeros(dtype, shape, &s.dfirst[i]));
    }
    lk_tensor_free(x);
    lk_tensor_free(dx);
    lk_tensor_free(c);
    return s;
}

static inline void net_free(struct net *s)
{
    for (int k = 0; k < s->n; k++) {
        lk_accumulator_free(s->sums[k]);
        lk_model_free(s->model[k]);
        lk_tensor_free(s->x[k]);
        lk_tensor_free(s->dx[k]);
        lk_tensor_free(s->c[k]);
        lk_tensor_free(s->y[k]);
    }
    for (int i = 0; i < s->carries; i++) {
        lk_tensor_free(s->first[i]);
        lk_tensor_free(s->dfirst[i]);
        lk_tensor_free(s->d[i]);
        lk_tensor_free(s->last[i]);
    }
}

/* *loss += sum of v * weights; the value is kept. */
static inline void loss_add(lk_tape *tape, lk_var v, lk_tensor *weights, lk_tensor **kept,
                            lk_var *loss)
{
    const lk_tensor *value;
    lk_var w, product;
    ASSERT_OK(lk_value(v, &value));
    ASSERT_OK(lk_tensor_clone(value, lk_dtype_of(v), kept));
    ASSERT_OK(lk_constant(tape, weights, &w));
    ASSERT_OK(lk_reshape(w, lk_shape_of(v), &w));
    ASSERT_OK(lk_mul(v, w, &product));
    ASSERT_OK(lk_sum(product, NULL, &product));
    if (lk_is_var(*loss))
        ASSERT_OK(lk_add(*loss, product, loss));
    else
        *loss = product;
}

/* All parts one after the other, forward and backward. */
static inline double net_run(struct net *s)
{
    lk_tape *tape = NULL;
    lk_var carry[2][MOST_CARRIES], y[MOST_PARTS], loss = LK_NO_VAR;
    lk_list list[2] = {{.at = carry[0], .n = s->carries, .room = MOST_CARRIES},
                       {.at = carry[1], .room = MOST_CARRIES}};
    double value;
    ASSERT_OK(lk_tape_new(&tape));
    for (int i = 0; i < s->carries; i++)
        ASSERT_OK(lk_leaf(tape, s->first[i], s->dfirst[i], &carry[0][i]));
    for (int k = 0; k < s->n; k++) {
        int at = s->reverse ? s->n - 1 - k : k;
        lk_var x;
        ASSERT_OK(lk_leaf(tape, s->x[at], s->dx[at], &x));
        ASSERT_OK(lk_model_forward_carry(s->model[at],
                                         &(lk_pass){.tape = tape, .accumulator = s->sums[at]}, x,
                                         &list[k % 2], &list[(k + 1) % 2], &y[at]));
        ASSERT_EQ(list[(k + 1) % 2].n, s->carries);
    }
    for (int k = 0; k < s->n; k++)
        loss_add(tape, y[k], s->c[k], &s->y[k], &loss);
    for (int i = 0; i < s->carries; i++)
        loss_add(tape, list[s->n % 2].at[i], s->d[i], &s->last[i], &loss);
    ASSERT_OK(lk_item(loss, &value));
    ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_tape_free(tape);
    return value;
}

#endif /* LK_TEST_CARRIES_H */
