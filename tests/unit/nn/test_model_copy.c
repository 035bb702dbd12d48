/* Models made of others, with batch norm over the whole batch: what changes, and what stays. */
#include "faults.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>

enum { FEATURES = 3, SAMPLES = 4, EACH = 2 };

static const lk_model_spec spec = {.in = {LK_F32, {.ndim = 1, .dim = {FEATURES}}}, .seed = 5};

/* Batch norm in the list, with options and all of them defaults, and two and three layers deep. */
static void layers_add(lk_model *m)
{
    ASSERT_OK(lk_model_add(m, "batch_norm", "eps=0.01 momentum=0.5 name=first"));
    ASSERT_OK(lk_model_add(m, "linear", "units=4 name=hidden init=normal(deviation=0.5)"));
    ASSERT_OK(
        lk_model_add(m, "residual",
                     "layers=linear(units=4),batch_norm,residual(layers=relu,batch_norm(eps=0.25)) "
                     "shortcut=batch_norm name=block"));
    ASSERT_OK(lk_model_add(m, "autoencoder",
                           "encode=linear(units=2 name=code),batch_norm decode=linear(units=4)"));
    ASSERT_OK(lk_model_add(m, "linear", "units=4 tie=autoencoder1.decode.linear1.weight"));
}

/* A model that was trained a little: parameters and state are not those that it began with. */
static lk_model *model_new(const lk_holding *holding)
{
    lk_model *m;
    ASSERT_OK(lk_model_new(&m));
    layers_add(m);
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, holding));
    lk_slab *all[] = {lk_model_params(m), lk_model_state(m)};
    for (int k = 0; k < 2; k++) {
        float *at = lk_slab_data(all[k]);
        for (int64_t i = 0; i < lk_slab_layout_bytes(lk_slab_layout_of(all[k])) / 4; i++)
            at[i] += 0.125F + (float)(i % 3) / 8;
    }
    return m;
}

static void expect_same_slab(const lk_slab *a, const lk_slab *b)
{
    lk_hash x = lk_hash_start(), y = lk_hash_start();
    lk_slab_hash(a, &x);
    lk_slab_hash(b, &y);
    ASSERT_TRUE(lk_slab_data(a) != lk_slab_data(b));
    ASSERT_TRUE(lk_hash_value(&x) == lk_hash_value(&y));
}

/* How many layers join sums over the batch. */
static int joining(const lk_model *m)
{
    int n = 0;
    for (int64_t i = 0; i < lk_model_layers(m); i++) {
        lk_layer_info info;
        ASSERT_OK(lk_model_layer(m, i, &info));
        bool joins = info.forward.calls > 0;
        ASSERT_TRUE(!joins || strcmp(info.type, "batch_norm") == 0);
        n += joins;
    }
    return n;
}

TEST(every_batch_norm_is_changed_and_nothing_else)
{
    lk_model *m = model_new(NULL), *copy;
    ASSERT_OK(lk_model_new_multi_node_batch_norm(m, &copy));
    ASSERT_EQ(lk_model_layers(copy), lk_model_layers(m));
    for (int64_t i = 0; i < lk_model_layers(m); i++) {
        lk_layer_info a, b;
        ASSERT_OK(lk_model_layer(m, i, &a));
        ASSERT_OK(lk_model_layer(copy, i, &b));
        ASSERT_TRUE(strcmp(a.name, b.name) == 0 && strcmp(a.type, b.type) == 0);
        ASSERT_EQ(a.params, b.params);
    }
    ASSERT_EQ(joining(m), 0);
    ASSERT_EQ(joining(copy), 5);
    ASSERT_TRUE(!lk_model_needs_batch_sync(m) && lk_model_needs_batch_sync(copy));
    expect_same_slab(lk_model_params(m), lk_model_params(copy));
    expect_same_slab(lk_model_state(m), lk_model_state(copy));
    lk_model_free(copy);
    lk_model_free(m);
}

/* y of a pass over SAMPLES samples in shards of EACH; `training` moves the running statistics. */
static void pass_run(lk_model *m, bool training, float *out)
{
    float x[SAMPLES * FEATURES];
    lk_tape *tape;
    lk_accumulator *sums;
    lk_var in, y;
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)(i * i % 7);
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, EACH));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(SAMPLES, FEATURES), x, &in));
    lk_pass pass = {.tape = tape, .accumulator = sums, .training = training};
    ASSERT_OK(lk_model_forward(m, &pass, in, &y));
    ASSERT_OK(lk_read(y, LK_F32, SAMPLES * 4, out));
    if (training)
        ASSERT_OK(lk_model_update_running_stats(m, sums, SAMPLES / EACH));
    lk_tape_free(tape);
    lk_accumulator_free(sums);
}

/* Options besides `statistics` are kept: eps and momentum show in values and in the running mean. */
TEST(it_works_as_one_that_was_made_so_and_outlives_the_other)
{
    lk_model *m = model_new(NULL), *copy, *made;
    float of_m[SAMPLES * 4], of_copy[SAMPLES * 4], of_made[SAMPLES * 4];
    pass_run(m, false, of_m);
    ASSERT_OK(lk_model_new_multi_node_batch_norm(m, &copy));
    pass_run(copy, false, of_copy);
    ASSERT_SAME_BITS(of_m, of_copy, sizeof of_m); /* by the running statistics */
    ASSERT_OK(lk_model_new(&made));
    ASSERT_OK(
        lk_model_add(made, "batch_norm", "eps=0.01 momentum=0.5 statistics=batch name=first"));
    ASSERT_OK(lk_model_add(made, "linear", "units=4 name=hidden"));
    ASSERT_OK(
        lk_model_add(made, "residual",
                     "layers=linear(units=4),batch_norm(statistics=batch),residual(layers=relu,"
                     "batch_norm(eps=0.25 statistics=batch)) shortcut=batch_norm(statistics=batch) "
                     "name=block"));
    ASSERT_OK(lk_model_add(made, "autoencoder",
                           "encode=linear(units=2 name=code),batch_norm(statistics=batch) "
                           "decode=linear(units=4)"));
    ASSERT_OK(lk_model_add(made, "linear", "units=4 tie=autoencoder1.decode.linear1.weight"));
    ASSERT_OK(lk_model_build(made, &spec));
    ASSERT_OK(lk_model_hold(made, NULL));
    lk_slab *from[] = {lk_model_params(m), lk_model_state(m)},
            *to[] = {lk_model_params(made), lk_model_state(made)};
    for (int k = 0; k < 2; k++)
        memcpy(lk_slab_data(to[k]), lk_slab_data(from[k]),
               (size_t)lk_slab_layout_bytes(lk_slab_layout_of(from[k])));
    pass_run(m, true, of_m);
    lk_model_free(m);
    pass_run(copy, true, of_copy);
    pass_run(made, true, of_made);
    ASSERT_SAME_BITS(of_copy, of_made, sizeof of_copy);
    ASSERT_TRUE(memcmp(of_copy, of_m, sizeof of_m) != 0);
    expect_same_slab(lk_model_state(copy), lk_model_state(made));
    lk_model_free(copy);
    lk_model_free(made);
}

TEST(what_is_frozen_and_what_is_held_is_kept)
{
    lk_range layers = {1, 2};
    lk_model *m = model_new(&(lk_holding){.layers = &layers}), *copy, *plain;
    ASSERT_OK(lk_model_train_layers(m, (const char *const[]){"block"}, 1));
    ASSERT_OK(lk_model_new_multi_node_batch_norm(m, &copy));
    expect_same_slab(lk_model_params(m), lk_model_params(copy));
    expect_same_slab(lk_model_state(m), lk_model_state(copy));
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_model_layout(m)); i++)
        ASSERT_EQ(lk_model_param_moves(copy, i), lk_model_param_moves(m, i));
    lk_model_free(copy);
    lk_model_free(m);
    /* one that is not built, and one that holds nothing */
    ASSERT_OK(lk_model_new(&m));
    layers_add(m);
    ASSERT_OK(lk_model_new_multi_node_batch_norm(m, &copy));
    ASSERT_EQ(lk_model_layers(copy), 0);
    ASSERT_OK(lk_model_build(copy, &spec));
    ASSERT_EQ(joining(copy), 5);
    ASSERT_OK(lk_model_new_multi_node_batch_norm(copy, &plain)); /* of one that has it already */
    ASSERT_EQ(joining(plain), 5);
    ASSERT_TRUE(!lk_model_params(plain));
    lk_model_free(plain);
    lk_model_free(copy);
    lk_model_free(m);
}

/* ---- layers of a program ---- */

typedef struct own_options {
    double by;
    const char *text;
    lk_configs layers;
    bool secret; /* also build a batch norm that no option lists */
} own_options;

static const lk_option own_table[] = {
    {"by", LK_OPTION_REAL, offsetof(own_options, by), .def = "2", .help = "factor"},
    {"text", LK_OPTION_TEXT, offsetof(own_options, text), .help = "nothing"},
    {"layers", LK_OPTION_CONFIGS, offsetof(own_options, layers), .registry = &lk_registry_layer,
     .help = "what is applied first"},
    {0}};

static lk_status own_build(lk_build *build, const void *options, lk_tensor_type in,
                           lk_tensor_type *out)
{
    const own_options *o = options;
    static lk_config hidden;
    static lk_configs list = {1, &hidden};
    LK_CHECK(o->text && strcmp(o->text, "kept") == 0 && o->by == 3, LK_EINVAL, "other options");
    LK_TRY(lk_build_layers(build, "", &o->layers, in, out));
    if (!o->secret)
        return LK_OK;
    LK_TRY(lk_descriptor_find(&lk_registry_layer, "batch_norm", &hidden.descriptor));
    return lk_build_layers(build, "more", &list, *out, out);
}

static lk_status own_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    LK_TRY(lk_pass_layers(pass, layer, 0, x, &x));
    return LK_TRACE(lk_affine(x, ((const own_options *)layer->options)->by, 0, out));
}

static const lk_layer own = {.descriptor = {.name = "own",
                                            .summary = "a layer of a program",
                                            .options = own_table,
                                            .options_size = sizeof(own_options)},
                             .build = own_build,
                             .forward = own_forward};

static lk_status own_model(own_options *options, lk_arena *arena, lk_model **out)
{
    lk_status st;
    lk_configs list = {1, NULL};
    lk_config config = {.descriptor = &own.descriptor, .options = options, .name = "mine"};
    *out = NULL;
    LK_TRY(lk_arena_alloc(arena, &list.item, 1, sizeof *list.item));
    LK_TRY(lk_config_parse(&lk_registry_layer, "batch_norm", NULL, arena, &list.item[0]));
    *options = (own_options){.by = 3, .text = "kept", .layers = list, .secret = options->secret};
    LK_TRY(lk_model_new(out));
    LK_TRY_TO(fail, lk_model_add_config(*out, &config));
    LK_TRY_TO(fail, lk_model_build(*out, &spec));
    LK_TRY_TO(fail, lk_model_hold(*out, NULL));
    return LK_OK;
fail:
    lk_model_free(*out);
    return st;
}

TEST(layers_of_the_program_are_kept)
{
    lk_arena *arena;
    own_options options = {.secret = false};
    lk_model *m, *copy;
    lk_layer_info info;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(own_model(&options, arena, &m));
    ASSERT_OK(lk_model_new_multi_node_batch_norm(m, &copy));
    lk_model_free(m);
    lk_arena_free(arena);
    memset(&options, 0xff, sizeof options); /* the copy has its own */
    ASSERT_EQ(joining(copy), 1);
    ASSERT_OK(lk_model_layer(copy, 0, &info));
    ASSERT_TRUE(strcmp(info.name, "mine") == 0 && strcmp(info.type, "own") == 0);
    lk_model *again;
    ASSERT_OK(lk_model_new_multi_node_batch_norm(copy, &again));
    lk_model_free(copy);
    ASSERT_OK(lk_model_layer(again, 1, &info));
    ASSERT_TRUE(strcmp(info.name, "mine.batch_norm1") == 0);
    lk_model_free(again);
}

TEST(batch_norm_that_no_option_lists_is_named)
{
    lk_arena *arena;
    own_options options = {.secret = true};
    lk_model *m, *copy;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(own_model(&options, arena, &m));
    ASSERT_FAILS(lk_model_new_multi_node_batch_norm(m, &copy), LK_ENOTSUP,
                 "layer mine.more.batch_norm1 is made by the layer around it");
    ASSERT_TRUE(!copy);
    ASSERT_FAILS(lk_model_new_multi_node_batch_norm(NULL, &copy), LK_EINVAL, "model is NULL");
    lk_model_free(m);
    lk_arena_free(arena);
}

static lk_model *given;

static lk_status copy_made(void)
{
    lk_model *copy = NULL;
    lk_status st = lk_model_new_multi_node_batch_norm(given, &copy);
    lk_model_free(copy);
    return st;
}

TEST(every_allocation_can_fail)
{
    given = model_new(NULL);
    ASSERT_TRUE(test_every_allocation_fails(copy_made) > 20);
    lk_model_free(given);
}
