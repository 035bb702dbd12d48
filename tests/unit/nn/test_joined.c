/* Residual blocks that concatenate, and U-Nets of them: which channels are where, values and gradients
 * of another program (tests/data/joined.py says how), parts, identity, and what does not fit. */
#include "faults.h"
#include "real.h"
#include "written.h"

#include <lockstep/config.h>
#include <lockstep/hash.h>
#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { SEED = 5 };

static lk_tensor *drawn(lk_shape shape, const char *purpose)
{
    lk_tensor *t = NULL;
    void *data = NULL;
    ASSERT_OK(lk_tensor_new(LK_F32, shape, &t));
    ASSERT_OK(lk_tensor_writable_data(t, &data));
    ASSERT_OK(lk_rng_uniform_f32(lk_rng_start(SEED, "joined", purpose), (lk_rng_at){.element = 0},
                                 lk_tensor_count(t), data));
    for (int64_t i = 0; i < lk_tensor_count(t); i++)
        ((float *)data)[i] = 2 * ((float *)data)[i] - 1;
    return t;
}

/* Three levels; the lists begin with a relu that goes with the pool behind it, where x goes on as it
 * is. */
#define UNET_LEVEL                                                                              \
    "layers=relu,maxpool(size=2),conv(filters=3 kernel=3 padding=1),relu,residual(layers=relu," \
    "maxpool(size=2),conv(filters=4 kernel=3 padding=1),relu,"                                  \
    "conv_transpose(filters=2 kernel=2 stride=2) join=concat),conv(filters=5 kernel=1),relu,"   \
    "conv_transpose(filters=3 kernel=2 stride=2) join=concat"

static const char *const unet[] = {
    "conv", "filters=2 kernel=3 padding=1", "residual", UNET_LEVEL, "batch_norm", NULL,
    "conv", "filters=2 kernel=1",           NULL};
static const lk_model_spec picture = {.in = {LK_F32, {.ndim = 3, .dim = {8, 4, 1}}},
                                      .seed = SEED,
                                      .pieces = {.blocks = 2, .least_block = 1}};

/* ---- what is where ---- */

/* Run a model of one layer on x. */
static const lk_tensor *output_of(lk_tape *tape, lk_model **m, const char *type,
                                  const char *options, lk_tensor *x)
{
    const lk_tensor *y = NULL;
    lk_var v;
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(2, 3)}, .seed = SEED};
    *m = listed_model((const char *[]){type, options, NULL}, &spec);
    ASSERT_OK(lk_model_hold(*m, NULL));
    ASSERT_OK(lk_constant(tape, x, &v));
    ASSERT_OK(lk_model_forward(*m, &(lk_pass){.tape = tape}, v, &v));
    ASSERT_OK(lk_value(v, &y));
    return y;
}

/* Channels of `y`, [4][2][channels], from `first` on are those of `part`. */
static void expect_channels(const lk_tensor *y, int64_t first, const lk_tensor *part)
{
    int64_t n = lk_tensor_shape(part).dim[2], all = lk_tensor_shape(y).dim[2];
    const float *have = lk_tensor_data(y), *want = lk_tensor_data(part);
    for (int64_t i = 0; i < 4 * 2; i++)
        ASSERT_EQ(memcmp(have + i * all + first, want + i * n, (size_t)n * sizeof *want), 0);
}

TEST(x_comes_first_and_the_layers_behind_it)
{
    lk_tape *tape = NULL;
    lk_model *m[5];
    lk_tensor *x = drawn(LK_SHAPE(4, 2, 3), "x");
    ASSERT_OK(lk_tape_new(&tape));
    const lk_tensor *tanh = output_of(tape, &m[0], "tanh", NULL, x),
                    *elu = output_of(tape, &m[1], "elu", NULL, x),
                    *plain = output_of(tape, &m[2], "residual", "layers=tanh join=concat", x),
                    *both = output_of(tape, &m[3], "residual",
                                      "layers=tanh shortcut=elu join=concat", x),
                    *sum = output_of(tape, &m[4], "residual", "layers=tanh join=add", x);
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(plain), LK_SHAPE(4, 2, 6)));
    ASSERT_TRUE(lk_shape_is_equal(lk_tensor_shape(sum), LK_SHAPE(4, 2, 3)));
    expect_channels(plain, 0, x);
    expect_channels(plain, 3, tanh);
    expect_channels(both, 0, elu);
    expect_channels(both, 3, tanh);
    for (int i = 0; i < 5; i++)
        lk_model_free(m[i]);
    lk_tape_free(tape);
    lk_tensor_free(x);
}

TEST(layers_say_what_comes_out)
{
    static const struct {
        const char *name;
        lk_reach reach;
        lk_shape out;
    } want[] = {
        {"residual1", LK_REACH_POSITION, {.ndim = 3, .dim = {8, 4, 5}}},
        {"residual1.conv1", LK_REACH_WINDOW, {.ndim = 3, .dim = {4, 2, 3}}},
        {"residual1.residual1", LK_REACH_POSITION, {.ndim = 3, .dim = {4, 2, 5}}},
        {"residual1.residual1.conv1", LK_REACH_WINDOW, {.ndim = 3, .dim = {2, 1, 4}}},
        {"batch_norm1", LK_REACH_BATCH, {.ndim = 3, .dim = {8, 4, 5}}},
    };
    lk_model *m = listed_model(unet, &picture);
    size_t found = 0;
    for (int64_t i = 0; i < lk_model_layers(m); i++) {
        lk_layer_info info;
        ASSERT_OK(lk_model_layer(m, i, &info));
        for (size_t k = 0; k < sizeof want / sizeof want[0]; k++)
            if (strcmp(info.name, want[k].name) == 0) {
                ASSERT_EQ(info.reach, want[k].reach);
                ASSERT_TRUE(lk_shape_is_equal(info.out.shape, want[k].out));
                found++;
            }
    }
    ASSERT_EQ(found, sizeof want / sizeof want[0]);
    lk_model_free(m);
}

/* ---- against another program ---- */

static const struct {
    const char *name;
    lk_shape in;
    const char *layers[12];
} networks[] = {
    {"vectors",
     {.ndim = 3, .dim = {1, 1, 3}},
     {"residual", "layers=linear(units=2),tanh join=concat", "linear", "units=2", NULL}},
    {"shortcut",
     {.ndim = 3, .dim = {1, 1, 3}},
     {"residual", "layers=linear(units=3) shortcut=linear(units=2),tanh join=concat", NULL}},
    {"unet",
     {.ndim = 3, .dim = {4, 4, 1}},
     {"conv", "filters=2 kernel=3 padding=1", "tanh", NULL, "residual",
      "layers=avgpool(size=2),conv(filters=3 kernel=1),tanh,residual(layers=avgpool(size=2),"
      "conv(filters=2 kernel=1),tanh,conv_transpose(filters=1 kernel=2 stride=2) join=concat),"
      "tanh,conv_transpose(filters=1 kernel=2 stride=2) join=concat",
      "conv", "filters=2 kernel=3 padding=1", NULL}},
};

static written written_new(size_t which, lk_dtype dtype)
{
    written w = {.model = NULL};
    w.model = listed_model(networks[which].layers,
                           &(lk_model_spec){.in = {dtype, networks[which].in}, .dtype = dtype});
    lk_shape in = networks[which].in, out = lk_model_out(w.model).shape;
    ASSERT_OK(lk_model_hold(w.model, NULL));
    ASSERT_OK(lk_accumulator_new(w.model, &w.sums));
    ASSERT_OK(lk_tensor_zeros(dtype, LK_SHAPE(2, in.dim[0], in.dim[1], in.dim[2]), &w.x));
    ASSERT_OK(lk_tensor_zeros(dtype, lk_tensor_shape(w.x), &w.dx));
    ASSERT_OK(lk_tensor_zeros(dtype, LK_SHAPE(2, out.dim[0], out.dim[1], out.dim[2]), &w.c));
    return w;
}

static void written_free(written *w)
{
    lk_tensor_free(w->x);
    lk_tensor_free(w->dx);
    lk_tensor_free(w->c);
    lk_accumulator_free(w->sums);
    lk_model_free(w->model);
}

static double written_run(written *w)
{
    lk_tape *tape = NULL;
    lk_var x, c, y, loss;
    double value = 0;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_leaf(tape, w->x, w->dx, &x));
    ASSERT_OK(lk_constant(tape, w->c, &c));
    ASSERT_OK(lk_model_forward(w->model, &(lk_pass){.tape = tape, .accumulator = w->sums}, x, &y));
    ASSERT_OK(lk_mul(y, c, &y));
    ASSERT_OK(lk_sum(y, NULL, &loss));
    ASSERT_OK(lk_item(loss, &value));
    ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_tape_free(tape);
    return value;
}

static void check_network(FILE *f, size_t which, lk_dtype dtype, double tolerance)
{
    char line[4096], name[64];
    double value[MOST_VALUES], loss = 0;
    written w = written_new(which, dtype);
    int gradients = 0;
    while (fgets(line, sizeof line, f) && strncmp(line, "network", 7) != 0) {
        if (sscanf(line, "loss %lf", &loss) == 1) {
            check_near(networks[which].name, written_run(&w), loss, tolerance);
            continue;
        }
        int n = read_values(line, value);
        ASSERT_EQ(sscanf(line, "%*s %63s", name), 1);
        bool gradient = strncmp(line, "grad", 4) == 0;
        void *data = elements_of(&w, name, gradient, n);
        if (!gradient)
            numbers_set(dtype, data, value, n);
        for (int i = 0; gradient && i < n; i++)
            check_near(name, real_get(dtype, data, i), value[i], tolerance);
        gradients += gradient;
    }
    ASSERT_EQ(gradients, 1 + lk_slab_layout_slices(lk_model_layout(w.model)));
    written_free(&w);
}

TEST(values_and_gradients_are_those_of_another_program)
{
    for (int p = 0; p < 2; p++) {
        FILE *f = fopen("tests/data/joined.txt", "r");
        char line[256];
        ASSERT_TRUE(f && fgets(line, sizeof line, f) && fgets(line, sizeof line, f));
        for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
            check_network(f, i, p == 0 ? LK_F64 : LK_F32, p == 0 ? 1e-13 : 1e-5);
        fclose(f);
    }
}

/* ---- passes ---- */

typedef struct segment_arg {
    lk_model *model;
    lk_var x;
} segment_arg;

static lk_status model_segment(lk_tape *tape, void *arg, lk_var *out)
{
    const segment_arg *a = arg;
    return LK_TRACE(lk_model_forward(a->model, &(lk_pass){.tape = tape}, a->x, out));
}

enum { PLAIN, RECOMPUTED, WATCHED, WAYS };

/* The hash of the output, and of the gradient of x. */
static void unet_run(lk_model *m, int way, uint64_t *out, uint64_t *gradient)
{
    lk_tape *tape = NULL;
    lk_tensor *x = drawn(LK_SHAPE(3, 8, 4, 1), "x"), *dx = NULL;
    const lk_tensor *value = NULL;
    char layer[64] = "";
    lk_var vx, y = LK_NO_VAR, loss;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tensor_zeros(LK_F32, lk_tensor_shape(x), &dx));
    ASSERT_OK(lk_leaf(tape, x, dx, &vx));
    segment_arg arg = {m, vx};
    if (way == PLAIN)
        ASSERT_OK(model_segment(tape, &arg, &y));
    else if (way == RECOMPUTED)
        ASSERT_OK(lk_recompute(tape, model_segment, &arg, 1, &y));
    else
        ASSERT_OK(
            lk_model_find_nonfinite(m, &(lk_pass){.tape = tape}, vx, layer, sizeof layer, &y));
    ASSERT_TRUE(layer[0] == '\0');
    ASSERT_OK(lk_value(y, &value));
    lk_hash h = lk_hash_start(), g = lk_hash_start();
    lk_hash_add_bytes(&h, lk_tensor_data(value), (size_t)lk_tensor_count(value) * sizeof(float));
    ASSERT_OK(lk_square(y, &y));
    ASSERT_OK(lk_sum(y, NULL, &loss));
    ASSERT_OK(lk_backward(tape, &(lk_seed){loss, NULL}, 1, 0));
    lk_hash_add_bytes(&g, lk_tensor_data(dx), (size_t)lk_tensor_count(dx) * sizeof(float));
    *out = lk_hash_value(&h);
    *gradient = lk_hash_value(&g);
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_tensor_free(dx);
}

/* Who watches sees each relu on its own; otherwise it goes with the pool behind it or the convolution
 * before, and not with what the shortcut passes on. */
TEST(every_way_to_run_a_unet_has_the_same_bits)
{
    uint64_t out[WAYS], gradient[WAYS];
    lk_model *m = listed_model(unet, &picture);
    ASSERT_OK(lk_model_hold(m, NULL));
    for (int way = 0; way < WAYS; way++)
        unet_run(m, way, &out[way], &gradient[way]);
    ASSERT_TRUE(out[PLAIN] == out[RECOMPUTED] && out[PLAIN] == out[WATCHED]);
    ASSERT_TRUE(gradient[PLAIN] == gradient[RECOMPUTED] && gradient[PLAIN] == gradient[WATCHED]);
    lk_model_free(m);
}

TEST(the_layer_that_is_not_finite_is_named)
{
    static const char bias[] = "residual1.residual1.conv1.bias";
    lk_model *m = listed_model(unet, &picture);
    lk_tape *tape = NULL;
    lk_tensor *x = drawn(LK_SHAPE(3, 8, 4, 1), "x");
    char layer[64];
    int64_t bytes;
    lk_var v;
    ASSERT_OK(lk_model_hold(m, NULL));
    *(float *)(void *)slice_of(lk_model_params(m), bias, &bytes) = INFINITY;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_constant(tape, x, &v));
    ASSERT_OK(lk_model_find_nonfinite(m, &(lk_pass){.tape = tape}, v, layer, sizeof layer, &v));
    ASSERT_TRUE(strcmp(layer, "residual1.residual1.conv1") == 0);
    lk_tape_free(tape);
    lk_tensor_free(x);
    lk_model_free(m);
}

/* What follows has the blocks of all channels, here 5 as 3 and 2, wherever they came from. */
TEST(blocks_are_those_of_all_channels)
{
    static const char *const want[][2] = {{"batch_norm1.gamma", "f32[3:5]"},
                                          {"conv2.weight", "f32[1,1,5,1:2]"},
                                          {"residual1.conv2.weight", "f32[1,1,5,3:5]"},
                                          {"residual1.conv_transpose1.weight", "f32[2,2,3,5]"}};
    lk_model *m = listed_model(unet, &picture);
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){1, 1}}));
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(m));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        int64_t at;
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_find(layout, want[i][0], &at));
        ASSERT_OK(lk_slab_layout_slice(layout, at, &slice));
        if (strcmp(lk_slab_slice_text(&slice).s, want[i][1]) != 0)
            TEST_FAIL("of %s there is %s", want[i][0], lk_slab_slice_text(&slice).s);
    }
    lk_model_free(m);
}

/* ---- identity ---- */

/* The sum is in no hash, as before there was anything else. */
TEST(only_concat_is_in_the_identity)
{
    static const char *const text[] = {"layers=tanh", "layers=tanh join=add",
                                       "layers=tanh join=concat"};
    uint64_t value[3];
    lk_arena *arena = NULL;
    ASSERT_OK(lk_arena_new(&arena));
    for (int i = 0; i < 3; i++) {
        lk_config choice;
        lk_hash h = lk_hash_start();
        ASSERT_OK(lk_config_parse(&lk_registry_layer, "residual", text[i], arena, &choice));
        ASSERT_OK(lk_config_hash(&choice, &h));
        value[i] = lk_hash_value(&h);
    }
    ASSERT_TRUE(value[0] == value[1] && value[0] != value[2]);
    ASSERT_TRUE(value[0] == UINT64_C(0x7376dc8623843e7c));
    lk_arena_free(arena);
}

/* ---- refusals ---- */

static void refuse(lk_tensor_type in, const char *options, lk_status st, const char *message)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "residual", options));
    ASSERT_FAILS(lk_model_build(m, &(lk_model_spec){.in = in}), st, message);
    lk_model_free(m);
}

TEST(what_does_not_fit_is_refused)
{
    lk_tensor_type odd = {LK_F32, LK_SHAPE(5, 4, 2)}, words = {LK_I64, LK_SHAPE(3)};
    refuse(odd, "layers=maxpool(size=2),conv_transpose(filters=3 kernel=2 stride=2) join=concat",
           LK_ESHAPE,
           "layer residual1 of f32[5,4,2]: the layers give f32[4,4,3], the shortcut f32[5,4,2], "
           "and join: concat takes one type, and axes that are equal but for the last: let "
           "`layers` end with the sizes of x, or `shortcut` change x as they do");
    refuse(odd, "layers=flatten join=concat", LK_ESHAPE, "the layers give f32[40]");
    refuse(words, "layers=embedding(rows=5 units=4) join=concat", LK_ESHAPE,
           "the layers give f32[3,4], the shortcut i64[3]");
    refuse((lk_tensor_type){LK_F32, {.ndim = 0}}, "layers=tanh join=concat", LK_ESHAPE,
           "the layers give f32[], the shortcut f32[]");
    refuse((lk_tensor_type){LK_F32, {.ndim = 1, .dim = {INT64_C(1) << 62}}},
           "layers=tanh join=concat", LK_EOVERFLOW, "too many channels");
    refuse(odd, "layers=conv(filters=3 kernel=1)", LK_ESHAPE,
           "the layers give [5,4,3], the shortcut [5,4,2]; a shortcut can give x as many channels, "
           "and join: concat takes both as they are");
}

static lk_status build_unet(void)
{
    lk_status st;
    lk_model *m = NULL;
    LK_TRY_TO(done, lk_model_new(&m));
    for (int i = 0; unet[i]; i += 2)
        LK_TRY_TO(done, lk_model_add(m, unet[i], unet[i + 1]));
    LK_TRY_TO(done, lk_model_build(m, &picture));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
done:
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(build_unet) > 10);
}
