/* Layers that a model applies at once: as many nodes fewer as its lists say, and the bits of layers one by one,
 * which is how lk_model_find_nonfinite() takes them. */
#include "harness.h"
#include "real.h"

#include <lockstep/extra/isa.h>
#include <lockstep/nn.h>
#include <lockstep/op.h>

#include <string.h>

enum { SAMPLES = 5, SHARD = 2, SEED = 3, PARTS = 8 };

typedef struct list {
    const char *layers[2 * PARTS + 1]; /* types and options */
    lk_shape in;
    int fewer; /* nodes, in training */
} list;

#define IMAGE LK_DIMS(5, 7, 3)
#define CONV "conv", "filters=4 kernel=3 padding=1"

static const list lists[] = {
    {{CONV, "relu", NULL}, IMAGE, 1},
    {{CONV, "sigmoid", NULL}, IMAGE, 1},
    {{CONV, "tanh", NULL}, IMAGE, 1},
    {{CONV, "gelu", NULL}, IMAGE, 0},
    {{CONV, "leaky_relu", NULL}, IMAGE, 0},
    {{"conv", "filters=4 kernel=3 algorithm=winograd", "relu", NULL}, IMAGE, 1},
    {{"linear", "units=5", "tanh", NULL, "linear", "units=3", "sigmoid", NULL}, LK_DIMS(7), 2},
    {{"linear", "units=5 transpose=true", "relu", NULL}, LK_DIMS(3, 4), 1},
    {{CONV, "batch_norm", NULL, "relu", NULL}, IMAGE, 1},
    {{"batch_norm", NULL, "sigmoid", NULL}, IMAGE, 1},
    {{"batch_norm", "statistics=batch", "relu", NULL}, IMAGE, 1},
    {{"layer_norm", NULL, "relu", NULL}, LK_DIMS(3, 17), 1},
    {{"layer_norm", "axes=2", "tanh", NULL}, LK_DIMS(3, 5), 1},
    /* to the layer behind it, rather than to the one before */
    {{CONV, "relu", NULL, "maxpool", "size=2"}, IMAGE, 1},
    {{CONV, "relu", NULL, "relu", NULL}, IMAGE, 1},
    {{CONV, "tanh", NULL, "maxpool", "size=2"}, IMAGE, 1},
    {{"residual", "layers=gelu", "relu", NULL}, IMAGE, 1},
    {{"residual", "layers=gelu,softplus shortcut=elu", "tanh", NULL}, IMAGE, 1},
    {{"residual", "layers=gelu join=concat", "relu", NULL}, IMAGE, 0},
    /* an activation around a list, and those within it */
    {{CONV, "batch_norm", NULL, "relu", NULL, "residual",
      "layers=conv(filters=4 kernel=3 padding=1),batch_norm,relu,conv(filters=4 kernel=3 "
      "padding=1),batch_norm shortcut=conv(filters=4 kernel=1),batch_norm",
      "relu", NULL},
     IMAGE,
     3},
    {{"residual", "layers=linear(units=7),tanh,dropout"}, LK_DIMS(7), 2},
    {{"residual", "layers=linear(units=7),dropout(rate=0.2) shortcut=linear(units=7),tanh", "relu",
      NULL},
     LK_DIMS(7),
     2},
    {{"residual", "layers=gelu,dropout(rate=0)", "relu", NULL}, LK_DIMS(7), 1},
    {{"residual", "layers=gelu,dropout join=concat"}, LK_DIMS(7), 0},
    /* x gets gradients from three places, in one order */
    {{"residual", "layers=residual(layers=dropout(rate=0.3))"}, LK_DIMS(7), 1},
    {{"linear", "units=7", "residual", "layers=residual(layers=dropout(rate=0.3)),relu"},
     LK_DIMS(7),
     1},
};

/* What one way of applying the layers gives. */
typedef struct result {
    lk_tensor *value, *dx;
    lk_accumulator *sums; /* gradients of parameters, and statistics */
    int64_t nodes;
} result;

static lk_tensor *drawn(lk_dtype dtype, lk_shape shape, const char *purpose)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(dtype, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++) {
        double u;
        ASSERT_OK(lk_rng_uniform_f64(lk_rng_start(SEED, "fusion", purpose),
                                     (lk_rng_at){.element = i}, 1, &u));
        double v = u < 0.1 ? -0.0 : u < 0.2 ? 0.0 : 2 * u - 1.2;
        real_set(dtype, data, i, v);
    }
    return t;
}

static lk_model *model_of(const list *l, lk_dtype dtype)
{
    lk_model_spec spec = {.in = {dtype, l->in}, .dtype = dtype, .seed = SEED};
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    for (int i = 0; l->layers[i]; i += 2)
        ASSERT_OK(lk_model_add(m, l->layers[i], l->layers[i + 1]));
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

static lk_shape samples_of(lk_shape one)
{
    lk_shape shape = {.ndim = one.ndim + 1, .dim = {SAMPLES}};
    memcpy(&shape.dim[1], one.dim, (size_t)one.ndim * sizeof one.dim[0]);
    return shape;
}

static result run(lk_model *m, const list *l, lk_pass pass, bool one_by_one)
{
    lk_dtype dtype = lk_model_out(m).dtype;
    lk_tensor *x = drawn(dtype, samples_of(l->in), "x"),
              *seed = drawn(dtype, samples_of(lk_model_out(m).shape), "seed");
    const lk_tensor *value;
    result r = {.nodes = 0};
    lk_var vx, y;
    char bad[64];
    ASSERT_OK(lk_tape_new(&pass.tape));
    ASSERT_OK(lk_tape_set_shard_size(pass.tape, SHARD));
    ASSERT_OK(lk_accumulator_new(m, &r.sums));
    ASSERT_OK(lk_tensor_zeros(dtype, samples_of(l->in), &r.dx));
    ASSERT_OK(lk_leaf(pass.tape, x, r.dx, &vx));
    pass.accumulator = r.sums;
    if (one_by_one)
        ASSERT_OK(lk_model_find_nonfinite(m, &pass, vx, bad, sizeof bad, &y));
    else
        ASSERT_OK(lk_model_forward(m, &pass, vx, &y));
    r.nodes = lk_tape_stats_of(pass.tape).nodes;
    ASSERT_OK(lk_value(y, &value));
    ASSERT_OK(lk_tensor_clone(value, dtype, &r.value));
    ASSERT_OK(lk_backward(pass.tape, &(lk_seed){y, seed}, 1, 0));
    lk_tape_free(pass.tape);
    lk_tensor_free(x);
    lk_tensor_free(seed);
    return r;
}

static void result_free(result *r)
{
    lk_tensor_free(r->value);
    lk_tensor_free(r->dx);
    lk_accumulator_free(r->sums);
}

static void check_same(int which, const char *how, const result *a, const result *b)
{
    const lk_slab *of = lk_accumulator_slab(a->sums), *with = lk_accumulator_slab(b->sums);
    size_t bytes = (size_t)lk_slab_layout_bytes(lk_slab_layout_of(of));
    if (!lk_tensor_is_equal(a->value, b->value) || !lk_tensor_is_equal(a->dx, b->dx) ||
        memcmp(lk_slab_data(of), lk_slab_data(with), bytes) != 0)
        TEST_FAIL("list %d, %s: other bits than layer by layer", which, how);
}

static void check_list(int which, lk_dtype dtype)
{
    const list *l = &lists[which];
    lk_model *m = model_of(l, dtype);
    for (int training = 0; training < 2; training++) {
        lk_pass pass = {.training = training, .step = 4, .first = 3};
        result apart = run(m, l, pass, true), fused = run(m, l, pass, false);
        if (training && apart.nodes - fused.nodes != l->fewer)
            TEST_FAIL("list %d: %lld nodes, %lld layer by layer, which should be %d fewer", which,
                      (long long)fused.nodes, (long long)apart.nodes, l->fewer);
        check_same(which, training ? "training" : "evaluation", &apart, &fused);
        pass.recompute = 2;
        result again = run(m, l, pass, false);
        check_same(which, "in segments", &apart, &again);
        result_free(&again);
        result_free(&apart);
        result_free(&fused);
    }
    lk_model_free(m);
}

TEST(layers_at_once_have_the_bits_of_layers_one_by_one)
{
    lk_isa best;
    ASSERT_OK(lk_isa_now(&best));
    for (int isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa++) {
        if (!lk_isa_is_available((lk_isa)isa))
            continue;
        ASSERT_OK(lk_isa_set((lk_isa)isa));
        for (int i = 0; i < LK_COUNT(lists); i++)
            for (int t = LK_F32; t <= LK_F64; t++)
                check_list(i, (lk_dtype)t);
    }
    ASSERT_OK(lk_isa_set(best));
}

TEST(a_layer_that_is_applied_by_another_keeps_its_name)
{
    const list *l = &lists[8]; /* conv, batch_norm, relu */
    lk_model *m = model_of(l, LK_F32);
    static const char *const names[] = {"conv1", "batch_norm1", "relu1"};
    ASSERT_EQ(lk_model_layers(m), 3);
    for (int i = 0; i < 3; i++) {
        lk_layer_info info;
        ASSERT_OK(lk_model_layer(m, i, &info));
        ASSERT_EQ(strcmp(info.name, names[i]), 0);
    }
    lk_model_free(m);
}
