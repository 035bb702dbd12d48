/* Models: names, shapes, initial values, sums and errors. */
#include "faults.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>

static lk_model *convnet(void)
{
    lk_model *m = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "conv", "filters=4 kernel=3 padding=1"));
    ASSERT_OK(lk_model_add(m, "batch_norm", NULL));
    ASSERT_OK(lk_model_add(m, "relu", NULL));
    ASSERT_OK(lk_model_add(m, "maxpool", "size=2"));
    ASSERT_OK(lk_model_add(m, "conv", "filters=2 kernel=1"));
    ASSERT_OK(lk_model_add(m, "residual", "layers=layer_norm,tanh"));
    ASSERT_OK(lk_model_add(m, "flatten", NULL));
    ASSERT_OK(lk_model_add(m, "linear", "units=3"));
    return m;
}

static const lk_model_spec image = {.in = {LK_F32, {.ndim = 3, .dim = {6, 8, 1}}}, .seed = 5};

TEST(layers_and_parameters_have_names)
{
    static const char *const names[] = {"conv1.weight",
                                        "conv1.bias",
                                        "batch_norm1.gamma",
                                        "batch_norm1.beta",
                                        "conv2.weight",
                                        "conv2.bias",
                                        "residual1.layer_norm1.gamma",
                                        "residual1.layer_norm1.beta",
                                        "linear1.weight",
                                        "linear1.bias"};
    lk_model *m = convnet();
    ASSERT_OK(lk_model_build(m, &image));
    ASSERT_OK(lk_model_hold(m, NULL));
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(m));
    ASSERT_EQ(lk_slab_layout_slices(layout), 10);
    for (int i = 0; i < 10; i++) {
        lk_slab_slice slice;
        ASSERT_OK(lk_slab_layout_slice(layout, i, &slice));
        if (strcmp(slice.name, names[i]) != 0)
            TEST_FAIL("parameter %d is %s, not %s", i, slice.name, names[i]);
    }
    lk_layer_info info;
    ASSERT_EQ(lk_model_layers(m), 10);
    ASSERT_OK(lk_model_layer(m, 6, &info));
    ASSERT_TRUE(strcmp(info.name, "residual1.layer_norm1") == 0 && info.depth == 1);
    ASSERT_EQ(info.params, 4);
    ASSERT_OK(lk_model_layer(m, 9, &info));
    ASSERT_EQ(info.in.shape.dim[0], 3 * 4 * 2);
    ASSERT_EQ(lk_model_out(m).shape.dim[0], 3);
    ASSERT_FAILS(lk_model_layer(m, 10, &info), LK_EINVAL, "layer 10 of 10");
    lk_model_free(m);
}

TEST(initial_values_depend_on_seed_and_name_alone)
{
    lk_model *a = convnet(), *b = NULL;
    lk_tensor *w[2] = {NULL};
    ASSERT_OK(lk_model_build(a, &image));
    ASSERT_OK(lk_model_hold(a, NULL));
    ASSERT_OK(lk_model_new(&b));
    ASSERT_OK(lk_model_add(b, "flatten", NULL));
    ASSERT_OK(lk_model_add(b, "linear", "units=3"));
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(24)}, .seed = 5};
    ASSERT_OK(lk_model_build(b, &spec));
    ASSERT_OK(lk_model_hold(b, NULL));
    ASSERT_OK(lk_slab_find(lk_model_params(a), "linear1.weight", &w[0]));
    ASSERT_OK(lk_slab_find(lk_model_params(b), "linear1.weight", &w[1]));
    ASSERT_TRUE(lk_tensor_is_equal(w[0], w[1]));
    lk_tensor_free(w[0]);
    lk_tensor_free(w[1]);
    lk_model_free(a);
    lk_model_free(b);
}

/* Mean and variance of what an initial value gives for [64][256]. */
static void moments(const char *init, double *mean, double *variance, double *largest)
{
    lk_model *m = NULL;
    char options[128];
    ASSERT_OK(lk_model_new(&m));
    snprintf(options, sizeof options, "units=256 bias=false init=%s", init);
    ASSERT_OK(lk_model_add(m, "linear", options));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_F64, LK_SHAPE(64)}, .dtype = LK_F64}));
    ASSERT_OK(lk_model_hold(m, NULL));
    const double *w = lk_slab_data(lk_model_params(m));
    int64_t n = 64 * 256;
    *mean = *variance = *largest = 0;
    for (int64_t i = 0; i < n; i++) {
        *mean += w[i] / (double)n;
        *largest = fmax(*largest, fabs(w[i]));
    }
    for (int64_t i = 0; i < n; i++)
        *variance += (w[i] - *mean) * (w[i] - *mean) / (double)n;
    lk_model_free(m);
}

TEST(initial_values_have_their_spread)
{
    double mean, variance, largest;
    moments("he", &mean, &variance, &largest);
    ASSERT_NEAR(variance, 2.0 / 64, 0.002);
    ASSERT_NEAR(mean, 0, 0.01);
    moments("glorot", &mean, &variance, &largest);
    ASSERT_NEAR(variance, 2.0 / (64 + 256), 0.0005);
    ASSERT_TRUE(largest <= sqrt(6.0 / (64 + 256)));
    moments("normal", &mean, &variance, &largest);
    ASSERT_NEAR(sqrt(variance), 0.01, 0.001);
    moments("uniform", &mean, &variance, &largest);
    ASSERT_NEAR(variance, 0.2 * 0.2 / 12, 0.0005);
    moments("constant", &mean, &variance, &largest);
    ASSERT_TRUE(mean == 0 && variance == 0);
}

/* Samples 1, 3, 10 and 20 in two pieces, whose mean is 8.5. */
static void expect_moved(const char *options, float seen)
{
    lk_model *m = NULL;
    lk_accumulator *sums = NULL;
    lk_tape *tape = NULL;
    lk_var x, y;
    const float batch[] = {1, 3, 10, 20};
    lk_tensor *t = NULL, *mean = NULL, *variance = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "batch_norm", options));
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(1)}}));
    ASSERT_OK(lk_model_hold(m, NULL));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_tape_set_shard_size(tape, 2));
    ASSERT_OK(lk_tensor_wrap_const(LK_F32, LK_SHAPE(4, 1), batch, NULL, NULL, &t));
    ASSERT_OK(lk_constant(tape, t, &x));
    ASSERT_OK(lk_model_forward(m, &(lk_pass){.tape = tape, .accumulator = sums, .training = true},
                               x, &y));
    ASSERT_OK(lk_model_update_running_stats(m, sums, 2));
    ASSERT_OK(lk_slab_find(lk_model_state(m), "batch_norm1.mean", &mean));
    ASSERT_OK(lk_slab_find(lk_model_state(m), "batch_norm1.variance", &variance));
    ASSERT_TRUE(*(const float *)lk_tensor_data(mean) == 0.5f * 8.5f);
    ASSERT_TRUE(*(const float *)lk_tensor_data(variance) == 1 + 0.5f * (seen - 1));
    lk_tensor_free(mean);
    lk_tensor_free(variance);
    lk_tensor_free(t);
    lk_tape_free(tape);
    lk_accumulator_free(sums);
    lk_model_free(m);
}

TEST(running_statistics_move_towards_what_was_seen)
{
    expect_moved("momentum=0.5", 13); /* the mean of 1 and 25 */
    expect_moved("momentum=0.5 statistics=batch", 55.25F);
}

TEST(what_does_not_fit_is_refused_by_name)
{
    lk_model *m = convnet();
    lk_model_spec small = {.in = {LK_F32, LK_SHAPE(1, 1, 1)}};
    ASSERT_FAILS(lk_model_build(m, &small), LK_ESHAPE, "layer maxpool1 of f32[1,1,4]");
    ASSERT_OK(lk_model_build(m, &image));
    ASSERT_OK(lk_model_hold(m, NULL));
    ASSERT_FAILS(lk_model_build(m, &image), LK_ESTATE, "already built");
    ASSERT_FAILS(lk_model_add(m, "relu", NULL), LK_ESTATE, "is built");
    ASSERT_FAILS(lk_model_add(m, "rleu", NULL), LK_EINVAL, "relu");
    lk_tape *tape = NULL;
    lk_var x, y;
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 6, 8), 1, &x));
    ASSERT_FAILS(lk_model_forward(m, &(lk_pass){.tape = tape}, x, &y), LK_ESHAPE,
                 "f32[6,8,1], not x of f32[2,6,8]");
    lk_tape_free(tape);
    lk_model_free(m);
}

/* A layer that fails, in words that could be taken for its name. */
static lk_status odd_build(lk_build *build, const void *options, lk_tensor_type in,
                           lk_tensor_type *out)
{
    (void)build;
    (void)options;
    LK_CHECK(in.shape.ndim == 1, LK_ESHAPE, "layer sizes are odd");
    *out = in;
    return LK_OK;
}

static lk_status odd_forward(const lk_pass *pass, const lk_layer_instance *unit, lk_var x,
                             lk_var *out)
{
    (void)pass;
    (void)unit;
    (void)x;
    (void)out;
    return LK_RAISE(LK_ENOTSUP, "out of paper");
}

static const lk_layer odd = {
    .descriptor = {.name = "odd", .summary = "fails"}, .build = odd_build, .forward = odd_forward};

/* The innermost layer, whatever the message says. */
TEST(a_failure_names_its_layer)
{
    lk_config item = {.descriptor = &odd.descriptor, .name = "a"};
    lk_tape *tape = NULL;
    lk_model *m = NULL;
    lk_var x, y;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add_config(m, &item));
    ASSERT_FAILS(lk_model_build(m, &image), LK_ESHAPE,
                 "layer a of f32[6,8,1]: layer sizes are odd");
    ASSERT_OK(lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(3)}}));
    ASSERT_OK(lk_model_hold(m, NULL));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_full(tape, LK_F32, LK_SHAPE(2, 3), 1, &x));
    for (int i = 0; i < 2; i++)
        ASSERT_FAILS(lk_model_forward(m, &(lk_pass){.tape = tape}, x, &y), LK_ENOTSUP,
                     "layer a: out of paper");
    lk_tape_free(tape);
    lk_model_free(m);
}

static lk_status build_and_run(void)
{
    lk_status st;
    lk_model *m = NULL;
    lk_accumulator *sums = NULL;
    LK_TRY_TO(done, lk_model_new(&m));
    LK_TRY_TO(done, lk_model_add(m, "conv", "filters=2 kernel=2"));
    LK_TRY_TO(done, lk_model_add(m, "batch_norm", NULL));
    LK_TRY_TO(done, lk_model_add(m, "residual", "layers=layer_norm,relu"));
    LK_TRY_TO(done, lk_model_build(m, &image));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
    LK_TRY_TO(done, lk_accumulator_new(m, &sums));
done:
    lk_accumulator_free(sums);
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(build_and_run) > 10);
}
