/* Layers that share a parameter: one tensor with one name, whose gradient is the tree over its uses of
 * what each has added up; values are those of another program (tests/data/tied.py says how). */
#include "drawn.h"
#include "faults.h"
#include "written.h"

#include <lockstep/config.h>
#include <lockstep/hash.h>
#include <lockstep/io.h>
#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { SAMPLES = 6, PIECE = 2, SEED = 3 };

static lk_model *model_of(const char *const *layers, const lk_model_spec *spec)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    for (; *layers; layers += 2)
        ASSERT_OK(lk_model_add(m, layers[0], layers[1]));
    ASSERT_OK(lk_model_build(m, spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    return m;
}

/* Gradients of sum(c y) for the samples of x, cut into pieces that are joined by the tree if `cut`; the
 * loss is returned. */
static double gradients(lk_model *m, lk_accumulator *sums, lk_tensor *x, lk_tensor *c, bool cut)
{
    lk_tape *tape = NULL;
    lk_accumulator *later = NULL;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, PIECE));
    ASSERT_OK(lk_accumulator_new(m, &later));
    lk_accumulator_clear(sums);
    int64_t step = cut ? PIECE : SAMPLES;
    for (int64_t first = 0; first < SAMPLES; first += step) {
        lk_accumulator *to = first == 0 ? sums : later;
        lk_tensor *part[2] = {NULL};
        lk_var vx, vc, y, loss;
        ASSERT_OK(lk_tensor_slice(x, 0, first, first + step, 1, &part[0]));
        ASSERT_OK(lk_tensor_slice(c, 0, first, first + step, 1, &part[1]));
        ASSERT_OK(lk_constant(tape, part[0], &vx));
        ASSERT_OK(lk_constant(tape, part[1], &vc));
        lk_accumulator_begin(to);
        ASSERT_OK(lk_model_forward(
            m, &(lk_pass){.tape = tape, .accumulator = to, .training = true, .first = first}, vx,
            &y));
        ASSERT_OK(lk_mul(y, vc, &y));
        ASSERT_OK(lk_sum(y, NULL, &loss));
        ASSERT_OK(lk_accumulator_add_loss(to, loss));
        ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
        if (to == later)
            ASSERT_OK(lk_accumulator_add(sums, later));
        lk_tape_reset(tape);
        lk_tensor_free(part[0]);
        lk_tensor_free(part[1]);
    }
    lk_accumulator_free(later);
    lk_tape_free(tape);
    return lk_accumulator_loss(sums);
}

static lk_tensor *drawn(lk_dtype dtype, lk_shape shape, const char *purpose, int64_t below)
{
    return test_drawn(lk_rng_start(SEED, "tie", purpose), dtype, shape, below);
}

/* ---- against parameters of their own ---- */

static const char *const tied[] = {"linear", "units=4 name=a",
                                   "tanh",   NULL,
                                   "linear", "units=4 tie=a.weight name=b",
                                   "tanh",   NULL,
                                   "linear", "units=4 tie=a.weight transpose=true name=c",
                                   NULL};
static const char *const apart[] = {"linear", "units=4 name=a",
                                    "tanh",   NULL,
                                    "linear", "units=4 name=b",
                                    "tanh",   NULL,
                                    "linear", "units=4 transpose=true name=c",
                                    NULL};
static const lk_model_spec vector = {.in = {LK_F32, {.ndim = 1, .dim = {4}}}, .seed = SEED};

/* Parameters a.weight, b.weight and c.weight are given the value of one. */
static void values_copy(const lk_model *from, const lk_model *to)
{
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(to));
    for (int64_t i = 0; i < lk_slab_layout_slices(layout); i++) {
        lk_slab_slice slice;
        int64_t bytes;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        bool weight = strstr(slice.name, ".weight");
        memcpy((char *)lk_slab_data(lk_model_params(to)) + slice.offset,
               slice_of(lk_model_params(from), weight ? "a.weight" : slice.name, &bytes),
               (size_t)slice.bytes);
    }
}

static void check_against_apart(bool cut)
{
    lk_model *one = model_of(tied, &vector), *three = model_of(apart, &vector);
    lk_accumulator *sums = NULL, *separate = NULL;
    lk_tensor *x = drawn(LK_F32, LK_SHAPE(SAMPLES, 4), "x", 0),
              *c = drawn(LK_F32, LK_SHAPE(SAMPLES, 4), "c", 0);
    int64_t bytes;
    values_copy(one, three);
    ASSERT_OK(lk_accumulator_new(one, &sums));
    ASSERT_OK(lk_accumulator_new(three, &separate));
    double loss = gradients(one, sums, x, c, cut);
    ASSERT_TRUE(loss == gradients(three, separate, x, c, cut));
    ASSERT_TRUE(loss != 0);
    ASSERT_OK(lk_accumulator_join_uses(sums));
    float *grad[3], by_hand[16];
    const char *const names[] = {"a.weight", "b.weight", "c.weight"};
    for (int i = 0; i < 3; i++)
        grad[i] = (float *)(void *)slice_of(lk_accumulator_slab(separate), names[i], &bytes);
    for (int i = 0; i < 16; i++)
        by_hand[i] = (grad[0][i] + grad[1][i]) + grad[2][i];
    ASSERT_EQ(
        memcmp(slice_of(lk_accumulator_slab(sums), "a.weight", &bytes), by_hand, sizeof by_hand),
        0);
    for (int i = 0; i < 3; i++) {
        const char *const bias[] = {"a.bias", "b.bias", "c.bias"};
        ASSERT_EQ(memcmp(slice_of(lk_accumulator_slab(sums), bias[i], &bytes),
                         slice_of(lk_accumulator_slab(separate), bias[i], &bytes), 16),
                  0);
    }
    lk_tensor_free(x);
    lk_tensor_free(c);
    lk_accumulator_free(sums);
    lk_accumulator_free(separate);
    lk_model_free(one);
    lk_model_free(three);
}

TEST(the_gradient_is_the_tree_over_the_uses)
{
    check_against_apart(false);
    check_against_apart(true);
}

/* Five uses: ((0 + 1) + (2 + 3)) + 4, each use filled by hand. */
TEST(five_uses_are_joined_in_the_order_of_layers)
{
    static const char *const layers[] = {"linear", "units=4 bias=false name=a",
                                         "linear", "units=4 bias=false tie=a.weight",
                                         "linear", "units=4 bias=false tie=a.weight",
                                         "linear", "units=4 bias=false tie=a.weight name=d",
                                         "linear", "units=4 bias=false tie=d.weight",
                                         NULL};
    static const char *const names[] = {"a.weight", "linear2.weight", "linear3.weight", "d.weight",
                                        "linear5.weight"};
    static const float value[] = {1e8F, -1e8F, 3, 1e-3F, 0.7F};
    lk_model *m = model_of(layers, &vector);
    lk_accumulator *sums = NULL;
    int64_t bytes;
    ASSERT_TRUE(lk_model_has_shared_params(m) && !lk_model_has_weight_reuse(m));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    for (int i = 0; i < 5; i++)
        *(float *)(void *)slice_of(lk_accumulator_slab(sums), names[i], &bytes) = value[i];
    ASSERT_OK(lk_accumulator_join_uses(sums));
    float want = ((value[0] + value[1]) + (value[2] + value[3])) + value[4];
    ASSERT_TRUE(*(float *)(void *)slice_of(lk_accumulator_slab(sums), "a.weight", &bytes) == want);
    ASSERT_TRUE(*(float *)(void *)slice_of(lk_accumulator_slab(sums), "d.weight", &bytes) == 0);
    lk_accumulator_free(sums);
    lk_model_free(m);
}

/* ---- one tensor ---- */

TEST(the_first_layer_owns_name_and_draws)
{
    static const char *const alone[] = {"linear", "units=4 name=a", NULL};
    lk_model *m = model_of(tied, &vector), *first = model_of(alone, &vector);
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(m));
    lk_layer_info info;
    int64_t i, bytes;
    ASSERT_EQ(lk_slab_layout_slices(layout), 4); /* a weight and three biases */
    ASSERT_FAILS(lk_slab_layout_find(layout, "b.weight", &i), LK_EINVAL, "no slice named");
    ASSERT_EQ(memcmp(slice_of(lk_model_params(m), "a.weight", &bytes),
                     slice_of(lk_model_params(first), "a.weight", &bytes), 64),
              0);
    ASSERT_OK(lk_model_layer(m, 0, &info));
    ASSERT_EQ(info.params, 20);
    ASSERT_OK(lk_model_layer(m, 2, &info));
    ASSERT_EQ(info.params, 4);
    lk_model_free(m);
    lk_model_free(first);
}

TEST(weights_hold_it_once)
{
    lk_model *m = model_of(tied, &vector), *other = NULL;
    lk_model_spec spec = vector;
    lk_safetensors *file = NULL;
    int64_t bytes;
    ASSERT_OK(lk_weights_save(NULL, m, "tied.safetensors", NULL, 0));
    ASSERT_OK(lk_safetensors_open("tied.safetensors", &file));
    ASSERT_EQ(lk_safetensors_count(file), 4);
    ASSERT_TRUE(lk_safetensors_find(file, "a.weight") >= 0);
    lk_safetensors_close(file);
    spec.seed++;
    other = model_of(tied, &spec);
    ASSERT_OK(lk_weights_load(other, "tied.safetensors"));
    ASSERT_EQ(memcmp(slice_of(lk_model_params(m), "a.weight", &bytes),
                     slice_of(lk_model_params(other), "a.weight", &bytes), 64),
              0);
    ASSERT_EQ(remove("tied.safetensors"), 0);
    lk_model_free(m);
    lk_model_free(other);
}

/* Whoever holds a use holds the parameter; the last use says how it is cut. */
TEST(a_shared_parameter_is_held_with_each_of_its_uses)
{
    static const char *const layers[] = {"embedding", "rows=6 units=4", "linear",
                                         "units=6 transpose=true tie=embedding1.weight", NULL};
    lk_model_spec spec = {
        .in = {LK_I64, {.ndim = 0}}, .seed = SEED, .pieces = {.blocks = 2, .least_block = 1}};
    for (int64_t i = 0; i < 2; i++) {
        lk_model *m = NULL;
        lk_slab_slice slice;
        ASSERT_OK(lk_model_new(&m));
        for (int k = 0; layers[k]; k += 2)
            ASSERT_OK(lk_model_add(m, layers[k], layers[k + 1]));
        ASSERT_OK(lk_model_build(m, &spec));
        ASSERT_OK(lk_model_hold(
            m, &(lk_holding){.layers = &(lk_range){i, 1}, .blocks = &(lk_range){1, 1}}));
        ASSERT_OK(lk_slab_layout_slice(lk_slab_layout_of(lk_model_params(m)), 0, &slice));
        ASSERT_TRUE(strcmp(lk_slab_slice_text(&slice).s, "f32[3:6,4]") == 0);
        lk_model_free(m);
    }
}

/* ---- transpose ---- */

TEST(a_transposed_weight_gives_the_bits_of_the_other)
{
    static const char *const plain[] = {"linear", "units=5", NULL}, *const turned[] = {
                                                                        "linear",
                                                                        "units=5 transpose=true",
                                                                        NULL};
    lk_model *m[2] = {model_of(plain, &vector), model_of(turned, &vector)};
    lk_accumulator *sums[2] = {NULL};
    lk_tensor *x = drawn(LK_F32, LK_SHAPE(SAMPLES, 4), "x", 0),
              *c = drawn(LK_F32, LK_SHAPE(SAMPLES, 5), "c", 0);
    int64_t bytes;
    float *w[2], *g[2];
    for (int i = 0; i < 2; i++) {
        w[i] = (float *)(void *)slice_of(lk_model_params(m[i]), "linear1.weight", &bytes);
        ASSERT_OK(lk_accumulator_new(m[i], &sums[i]));
        g[i] = (float *)(void *)slice_of(lk_accumulator_slab(sums[i]), "linear1.weight", &bytes);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 5; j++)
            w[1][j * 4 + i] = w[0][i * 5 + j];
    ASSERT_TRUE(gradients(m[0], sums[0], x, c, false) == gradients(m[1], sums[1], x, c, false));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 5; j++)
            ASSERT_EQ(memcmp(&g[1][j * 4 + i], &g[0][i * 5 + j], sizeof(float)), 0);
    for (int i = 0; i < 2; i++) {
        lk_accumulator_free(sums[i]);
        lk_model_free(m[i]);
    }
    lk_tensor_free(x);
    lk_tensor_free(c);
}

/* ---- against another program ---- */

static const struct {
    const char *name;
    lk_shape in;
    const char *layers[16];
} networks[] = {
    {"words",
     {.ndim = 0},
     {"embedding", "rows=5 units=3", "tanh", NULL, "linear",
      "units=5 transpose=true tie=embedding1.weight", NULL}},
    {"autoencoder",
     LK_DIMS(3),
     {"linear", "units=2", "tanh", NULL, "linear", "units=3 transpose=true tie=linear1.weight",
      NULL}},
    {"thrice",
     LK_DIMS(3),
     {"linear", "units=3", "tanh", NULL, "linear", "units=3 tie=linear1.weight", "tanh", NULL,
      "linear", "units=3 transpose=true tie=linear1.weight", NULL}},
    {"plane",
     LK_DIMS(3, 3, 1),
     {"local_conv", "filters=2 kernel=2 name=code", "tanh", NULL, "local_conv_transpose",
      "filters=1 kernel=2 tie=code.weight", NULL}},
    {"series",
     LK_DIMS(6, 1),
     {"local_conv", "filters=2 kernel=3 stride=2 name=code", "tanh", NULL, "local_conv_transpose",
      "filters=1 kernel=3 stride=2 size=6 tie=code.weight", NULL}},
    {"padded",
     LK_DIMS(2, 3, 1),
     {"local_conv", "filters=2 kernel=3,2 stride=2 padding=1 name=code", "tanh", NULL,
      "local_conv_transpose", "filters=1 kernel=3,2 stride=2 padding=1 size=2,3 tie=code.weight",
      NULL}},
    {"apart",
     LK_DIMS(3, 2, 1),
     {"local_conv", "filters=2 kernel=2 name=code", "tanh", NULL, "local_conv_transpose",
      "filters=1 kernel=2", NULL}},
};

/* Of all samples. */
static lk_shape batch_of(lk_shape sample)
{
    lk_shape shape = {.ndim = sample.ndim + 1, .dim = {SAMPLES}};
    for (int i = 0; i < sample.ndim; i++)
        shape.dim[i + 1] = sample.dim[i];
    return shape;
}

static void check_network(FILE *f, size_t which, lk_dtype dtype, double tolerance)
{
    char line[4096], name[64];
    double value[MOST_VALUES], loss = 0;
    bool words = strcmp(networks[which].name, "words") == 0;
    lk_model_spec spec = {.in = {words ? LK_I64 : dtype, networks[which].in}, .dtype = dtype};
    lk_model *m = model_of(networks[which].layers, &spec);
    lk_tensor *x = drawn(dtype, batch_of(networks[which].in), "x", words),
              *c = drawn(dtype, batch_of(lk_model_out(m).shape), "c", 0);
    lk_accumulator *sums = NULL;
    int64_t bytes;
    ASSERT_OK(lk_accumulator_new(m, &sums));
    while (fgets(line, sizeof line, f) && strncmp(line, "network", 7) != 0) {
        if (sscanf(line, "loss %lf", &loss) == 1) {
            check_near(networks[which].name, gradients(m, sums, x, c, true), loss, tolerance);
            ASSERT_OK(lk_accumulator_join_uses(sums));
            continue;
        }
        int n = read_values(line, value);
        ASSERT_EQ(sscanf(line, "%*s %63s", name), 1);
        if (strncmp(line, "grad", 4) == 0) {
            const void *got = slice_of(lk_accumulator_slab(sums), name, &bytes);
            ASSERT_EQ(bytes, n * (int64_t)lk_dtype_size(dtype));
            for (int i = 0; i < n; i++)
                check_near(name, real_get(dtype, got, i), value[i], tolerance);
            continue;
        }
        lk_tensor *t = strcmp(name, "x") == 0 ? x : strcmp(name, "c") == 0 ? c : NULL;
        void *data = NULL;
        if (t)
            ASSERT_OK(lk_tensor_writable_data(t, &data));
        else
            data = slice_of(lk_model_params(m), name, &bytes);
        numbers_set(t ? lk_tensor_dtype(t) : dtype, data, value, n);
    }
    ASSERT_TRUE(loss != 0);
    lk_tensor_free(x);
    lk_tensor_free(c);
    lk_accumulator_free(sums);
    lk_model_free(m);
}

TEST(values_and_gradients_are_those_of_another_program)
{
    for (int p = 0; p < 2; p++) {
        FILE *f = fopen("tests/data/tied.txt", "r");
        char line[256];
        ASSERT_TRUE(f && fgets(line, sizeof line, f) && fgets(line, sizeof line, f));
        for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
            check_network(f, i, p == 0 ? LK_F64 : LK_F32, p == 0 ? 1e-13 : 1e-5);
        fclose(f);
    }
}

/* ---- refusals ---- */

static void refuse(const char *second, lk_status st, const char *message)
{
    lk_model *m = NULL;
    lk_model_spec spec = {.in = {LK_I64, {.ndim = 0}}};
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "embedding", "rows=6 units=4 name=words"));
    ASSERT_OK(lk_model_add(m, "linear", second));
    ASSERT_FAILS(lk_model_build(m, &spec), st, message);
    lk_model_free(m);
}

TEST(a_tie_that_does_not_fit_is_refused)
{
    refuse("units=6 tie=words.weight", LK_ESHAPE,
           "layer linear1 ties its weight f32[4,6] to words.weight of layer words, which is "
           "f32[6,4]; its option transpose turns it");
    refuse("units=5 transpose=true tie=words.weight", LK_ESHAPE,
           "weight f32[5,4] to words.weight of layer words, which is f32[6,4]");
    refuse(
        "units=5 tie=word.weight", LK_EINVAL,
        "layer linear1 ties its weight to \"word.weight\", which no layer before it has; did you "
        "mean \"words.weight\"?");
    refuse("units=5 tie=linear1.weight", LK_EINVAL, "which no layer before it has");
    refuse("units=5 tie=words.gamma", LK_EINVAL, "layer linear1 has no parameter \"gamma\" to tie");
    refuse("units=5 tie=words", LK_EINVAL, "to tie: give LAYER.PARAMETER, such as words.weight");
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_FAILS(lk_model_add(m, "linear", "units=1 tie="), LK_EINVAL, "has an empty tie");
    ASSERT_FAILS(lk_model_add(m, "linear", "units=1 tie=a.weight tie=b.weight"), LK_EINVAL,
                 "given twice");
    lk_model_free(m);
}

/* Behind a local_conv of images 8x9 with stride 2, which makes 3x4. */
static void refuse_back(const char *options, lk_status st, const char *message)
{
    lk_model *m = NULL;
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(8, 9, 2)}};
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "local_conv", "filters=3 kernel=3 stride=2 name=code"));
    ASSERT_OK(lk_model_add(m, "local_conv_transpose", options));
    if (st != LK_OK)
        ASSERT_FAILS(lk_model_build(m, &spec), st, message);
    else
        ASSERT_OK(lk_model_build(m, &spec));
    lk_model_free(m);
}

TEST(a_way_back_that_does_not_fit_is_refused)
{
    refuse_back("filters=2 kernel=3 stride=2 size=8,9 tie=code.weight", LK_OK, NULL);
    refuse_back("filters=2 kernel=3 stride=2 size=9 tie=code.weight", LK_ESHAPE,
                "an output of 9 positions along axis 0 has 4 windows, not the input's 3: the size "
                "can be 7 to 8");
    refuse_back("filters=2 kernel=3 stride=2 size=8,9,1", LK_EINVAL,
                "size has 3 numbers for 2 spatial axes");
    refuse_back("filters=2 kernel=3 padding=3", LK_ESHAPE,
                "padding 3 leaves nothing of axis 0 of the output");
    refuse_back("filters=2 kernel=3 padding=1 pad=same", LK_EINVAL, "exclude each other");
    refuse_back("filters=1 kernel=3 stride=2 tie=code.weight", LK_ESHAPE,
                "layer local_conv_transpose1 ties its weight f32[3,4,3,3,1,3] to code.weight of "
                "layer code, which is f32[3,4,3,3,2,3]");
}

static const char file[] = "data: glyphs\n"
                           "model:\n"
                           "  - flatten\n"
                           "  - {type: linear, units: 8, name: in}\n"
                           "  - {type: linear, units: 9, tie: in.weight}\n"
                           "loss: softmax_cross_entropy\n"
                           "optimizer: sgd\n";

TEST(a_file_is_refused_with_its_place)
{
    lk_experiment *e = NULL;
    lk_model *m = NULL;
    ASSERT_OK(lk_experiment_parse("x.yaml", file, NULL, 0, &e));
    ASSERT_TRUE(strcmp(e->model.item[2].tie, "in.weight") == 0);
    ASSERT_OK(lk_model_new(&m));
    for (int64_t i = 0; i < e->model.n; i++)
        ASSERT_OK(lk_model_add_config(m, &e->model.item[i]));
    ASSERT_FAILS(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(3, 2)}}), LK_ESHAPE,
                 "x.yaml:5:35: layer linear2 ties its weight f32[8,9] to in.weight of layer in, "
                 "which is f32[6,8]");
    lk_model_free(m);
    lk_experiment_free(e);
}

/* A tie is part of a run's identity; without one, and without transpose, it is what it was. */
TEST(a_tie_is_in_the_identity)
{
    static const char *const text[] = {"units=4", "units=4 transpose=false",
                                       "units=4 transpose=true", "units=4 tie=a.weight",
                                       "units=4 tie=b.weight"};
    uint64_t value[5];
    lk_arena *arena = NULL;
    ASSERT_OK(lk_arena_new(&arena));
    for (int i = 0; i < 5; i++) {
        lk_config choice;
        lk_hash h = lk_hash_start();
        ASSERT_OK(lk_config_parse(&lk_registry_layer, "linear", text[i], arena, &choice));
        ASSERT_OK(lk_config_hash(&choice, &h));
        value[i] = lk_hash_value(&h);
    }
    ASSERT_TRUE(value[0] == value[1] && value[0] != value[2] && value[0] != value[3]);
    ASSERT_TRUE(value[3] != value[4]);
    ASSERT_TRUE(value[0] == UINT64_C(0x2c1e98f156832317));
    lk_arena_free(arena);
}

static lk_status build_tied(void)
{
    lk_status st;
    lk_model *m = NULL;
    lk_accumulator *sums = NULL;
    LK_TRY_TO(done, lk_model_new(&m));
    for (int i = 0; tied[i]; i += 2)
        LK_TRY_TO(done, lk_model_add(m, tied[i], tied[i + 1]));
    LK_TRY_TO(done, lk_model_build(m, &vector));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
done:
    lk_accumulator_free(sums);
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(build_tied) > 10);
}
