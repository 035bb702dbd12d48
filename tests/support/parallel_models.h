/* Models, batches and what a pass makes of them, for tests of make_parallel. */
#ifndef LK_TESTS_PARALLEL_MODELS_H
#define LK_TESTS_PARALLEL_MODELS_H

#include "drawn.h"
#include "harness.h"

#include <lockstep/lockstep.h>

#include <sched.h>

enum { PM_SEED = 7, PM_MAX_REPLICAS = 5 };

/* A kind of model: its layers as type, options, ...; NULL. */
struct pm_kind {
    const char *name;
    lk_shape sample;
    int64_t below; /* not 0: the input is numbers below this */
    lk_dtype dtype;
    const char *const *layers;
};

#define PM_LAYERS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct pm_kind pm_kinds[] = {
    {"perceptron", LK_DIMS(6), 0, LK_F32,
     PM_LAYERS("linear", "units=9", "relu", NULL, "linear", "units=4")},
    {"perceptron in f64", LK_DIMS(6), 0, LK_F64,
     PM_LAYERS("linear", "units=5", "tanh", NULL, "linear", "units=3")},
    {"convolution", LK_DIMS(8, 8, 3), 0, LK_F32,
     PM_LAYERS("conv", "filters=5 kernel=3,3", "batch_norm", NULL, "relu", NULL, "maxpool",
               "size=2", "dropout", "rate=0.4", "flatten", NULL, "linear", "units=3")},
    {"batch statistics", LK_DIMS(6, 6, 2), 0, LK_F32,
     PM_LAYERS("conv", "filters=4 kernel=3,3", "batch_norm", "statistics=batch", "relu", NULL,
               "flatten", NULL, "linear", "units=3", "batch_norm", "statistics=batch")},
    {"recurrent", LK_DIMS(5, 4), 0, LK_F32,
     PM_LAYERS("gru", "units=6", "batch_norm", NULL, "dropout", "rate=0.3", "linear", "units=2")},
    {"tied", LK_DIMS(4), 0, LK_F32,
     PM_LAYERS("linear", "units=4 name=a", "tanh", NULL, "linear", "units=4 tie=a.weight",
               "batch_norm", NULL, "linear", "units=4 tie=a.weight transpose=true")},
    {"embedding", LK_DIMS(3), 11, LK_F32,
     PM_LAYERS("embedding", "units=5 rows=11", "flatten", NULL, "linear", "units=2")},
};

enum { PM_N_KINDS = sizeof pm_kinds / sizeof pm_kinds[0] };

/* "cpu:0,cpu:1,cpu:0": n of the processors that this process may use. */
static inline const char *pm_devices(int n)
{
    static char text[PM_MAX_REPLICAS * 16];
    int cpu[PM_MAX_REPLICAS], found = 0, at = 0;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ASSERT_TRUE(sched_getaffinity(0, sizeof mask, &mask) == 0 && n <= PM_MAX_REPLICAS);
    for (int i = 0; i < CPU_SETSIZE && found < n; i++)
        if (CPU_ISSET((size_t)i, &mask))
            cpu[found++] = i;
    text[0] = '\0';
    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%scpu:%d", i > 0 ? "," : "",
                       cpu[i % found]);
    return text;
}

static inline lk_model *pm_model(const struct pm_kind *kind)
{
    lk_model *m = NULL;
    lk_model_spec spec = {.in = {kind->below ? LK_I64 : kind->dtype, kind->sample},
                          .dtype = kind->dtype,
                          .seed = PM_SEED};
    ASSERT_OK(lk_model_new(&m));
    for (const char *const *layer = kind->layers; *layer; layer += 2)
        ASSERT_OK(lk_model_add(m, layer[0], layer[1]));
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

/* `n` rows of a shape, of numbers in (-1, 1) or whole ones below `below`. */
static inline lk_tensor *pm_drawn(lk_dtype dtype, int64_t n, lk_shape row, const char *purpose,
                                  int64_t below)
{
    return test_drawn(lk_rng_start(PM_SEED, "make_parallel", purpose), dtype, test_batch(n, row),
                      below);
}

/* A batch: x, and c, of which the loss is sum(c y). */
struct pm_batch {
    lk_tensor *x, *c;
    int64_t n, shard;
};

static inline struct pm_batch pm_batch_new(const struct pm_kind *kind, const lk_model *m, int64_t n,
                                           int64_t shard)
{
    return (struct pm_batch){.x = pm_drawn(kind->dtype, n, kind->sample, "x", kind->below),
                             .c = pm_drawn(kind->dtype, n, lk_model_out(m).shape, "c", 0),
                             .n = n,
                             .shard = shard};
}

static inline void pm_batch_free(struct pm_batch *b)
{
    lk_tensor_free(b->x);
    lk_tensor_free(b->c);
}

/* What a pass gives: y, dx (NULL: not wanted), and the accumulator. */
struct pm_outcome {
    lk_tensor *y, *dx;
    lk_accumulator *sums;
};

static inline void pm_outcome_free(struct pm_outcome *o)
{
    lk_tensor_free(o->y);
    lk_tensor_free(o->dx);
    lk_accumulator_free(o->sums);
}

static inline lk_tensor *pm_rows(lk_tensor *t, int64_t first, int64_t n)
{
    lk_tensor *part = NULL;
    ASSERT_OK(lk_tensor_slice(t, 0, first, first + n, 1, &part));
    return part;
}

/* A pass over samples [first, first + n): by `p`, or if that is NULL by the model.  y and dx go to the
 * rows of `o`. */
static inline void pm_pass(lk_tape *tape, lk_model *m, lk_parallel_model *p,
                           const struct pm_batch *b, lk_range at, lk_accumulator *sums,
                           const struct pm_outcome *o)
{
    lk_tensor *x = pm_rows(b->x, at.first, at.n), *c = pm_rows(b->c, at.first, at.n),
              *y = pm_rows(o->y, at.first, at.n),
              *dx = o->dx ? pm_rows(o->dx, at.first, at.n) : NULL;
    const lk_tensor *value = NULL;
    lk_var vx, vc, vy, loss;
    lk_pass pass = {.tape = tape,
                    .accumulator = sums,
                    .training = true,
                    .step = 3,
                    .first = at.first,
                    .part = at.n < b->n};
    if (dx)
        ASSERT_OK(lk_leaf(tape, x, dx, &vx));
    else
        ASSERT_OK(lk_constant(tape, x, &vx));
    ASSERT_OK(lk_constant(tape, c, &vc));
    if (p)
        ASSERT_OK(lk_parallel_model_forward(p, &pass, vx, &vy));
    else
        ASSERT_OK(lk_model_forward(m, &pass, vx, &vy));
    ASSERT_OK(lk_value(vy, &value));
    ASSERT_OK(lk_tensor_copy(value, y));
    ASSERT_OK(lk_mul(vy, vc, &vy));
    ASSERT_OK(lk_sum(vy, NULL, &loss));
    ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_tape_reset(tape);
    lk_tensor_free(x);
    lk_tensor_free(c);
    lk_tensor_free(y);
    lk_tensor_free(dx);
}

/* Passes shard by shard, joined by the tree: of a model that uses a parameter more than once. */
static inline void pm_shards(lk_tape *tape, lk_model *m, const struct pm_batch *b, lk_range shards,
                             lk_accumulator *sums, const struct pm_outcome *o)
{
    if (shards.n == 1) {
        int64_t from = shards.first * b->shard, n = b->n - from < b->shard ? b->n - from : b->shard;
        lk_accumulator_begin(sums);
        pm_pass(tape, m, NULL, b, (lk_range){from, n}, sums, o);
        return;
    }
    lk_accumulator *later = NULL;
    int64_t half = lk_tree_half(shards.n);
    ASSERT_OK(lk_accumulator_new(m, &later));
    pm_shards(tape, m, b, (lk_range){shards.first, half}, sums, o);
    pm_shards(tape, m, b, (lk_range){shards.first + half, shards.n - half}, later, o);
    ASSERT_OK(lk_accumulator_add(sums, later));
    lk_accumulator_free(later);
}

static inline struct pm_outcome pm_outcome_new(lk_model *m, const struct pm_batch *b)
{
    struct pm_outcome o = {0};
    lk_shape shape = {.ndim = lk_model_out(m).shape.ndim + 1, .dim = {b->n}};
    memcpy(&shape.dim[1], lk_model_out(m).shape.dim,
           (size_t)(shape.ndim - 1) * sizeof shape.dim[0]);
    ASSERT_OK(lk_accumulator_new(m, &o.sums));
    ASSERT_OK(lk_tensor_zeros(lk_tensor_dtype(b->c), shape, &o.y));
    if (lk_dtype_is_real(lk_tensor_dtype(b->x)))
        ASSERT_OK(lk_tensor_zeros(lk_tensor_dtype(b->x), lk_tensor_shape(b->x), &o.dx));
    return o;
}

/* By the model itself. */
static inline struct pm_outcome pm_serial(lk_model *m, const struct pm_batch *b)
{
    struct pm_outcome o = pm_outcome_new(m, b);
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, b->shard));
    if (lk_model_has_weight_reuse(m) && b->n > 0 && b->shard > 0) {
        pm_shards(tape, m, b, (lk_range){0, (b->n - 1) / b->shard + 1}, o.sums, &o);
    } else {
        lk_accumulator_begin(o.sums);
        pm_pass(tape, m, NULL, b, (lk_range){0, b->n}, o.sums, &o);
    }
    ASSERT_OK(lk_accumulator_join_uses(o.sums));
    lk_tape_free(tape);
    return o;
}

/* By a parallel model. */
static inline struct pm_outcome pm_parallel(lk_parallel_model *p, const struct pm_batch *b)
{
    lk_model *m = lk_parallel_model_serial(p);
    struct pm_outcome o = pm_outcome_new(m, b);
    lk_tape *tape = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, b->shard));
    lk_accumulator_begin(o.sums);
    pm_pass(tape, m, p, b, (lk_range){0, b->n}, o.sums, &o);
    ASSERT_OK(lk_accumulator_join_uses(o.sums));
    lk_tape_free(tape);
    return o;
}

static inline bool pm_same(const struct pm_outcome *a, const struct pm_outcome *b)
{
    lk_slab *sa = lk_accumulator_slab(a->sums), *sb = lk_accumulator_slab(b->sums);
    return lk_tensor_is_equal(a->y, b->y) && (!a->dx || lk_tensor_is_equal(a->dx, b->dx)) &&
           memcmp(lk_slab_data(sa), lk_slab_data(sb),
                  (size_t)lk_slab_layout_bytes(lk_slab_layout_of(sa))) == 0;
}

#endif /* LK_TESTS_PARALLEL_MODELS_H */
