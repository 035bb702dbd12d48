/* Rows of parameters that have norm 1 behind each update: their bits against the definition, which rows, and
 * training against another program (tests/data/unit_norm.py says how). */
#include "faults.h"
#include "kernel/reference/real.h"
#include "kernel/reference/reference.h"
#include "written.h"

#include <lockstep/nn.h>
#include <lockstep/op.h>
#include <lockstep/optim.h>
#include <lockstep/thread.h>

#include <math.h>

enum { SAMPLES = 3, STEPS = 4, ROOM = 1 << 16 };

/* ---- bits ---- */

/* The definition: w is [positions][n][filters], a row at each position and filter. */
static void rows_divide(lk_dtype t, void *w, int64_t positions, int64_t n, int64_t filters)
{
    static double sums[ROOM / 8];
    lk__ref_reduce_axis(t, LK_REDUCE_AXIS_SUMSQ, &(lk_reduce_axis_shape){positions, n, filters, 0},
                        w, sums, NULL);
    for (int64_t i = 0; i < positions * n * filters; i++) {
        double norm = real_sqrt(t, real_get(t, sums, i / (n * filters) * filters + i % filters));
        real_set(t, w, i, real_div(t, real_get(t, w, i), norm));
    }
}

static const struct {
    const char *layer[2];
    lk_shape in;
    int64_t positions, n, filters;
} kinds[] = {
    {{"local_conv", "filters=3 kernel=2 unit_norm=true"}, LK_DIMS(4, 3, 2), 6, 8, 3},
    {{"local_conv", "filters=1 kernel=5 unit_norm=true"}, LK_DIMS(9, 8), 5, 40, 1},
    {{"local_conv", "filters=17 kernel=4 unit_norm=true"}, LK_DIMS(6, 6, 3), 9, 48, 17},
    {{"local_conv", "filters=2 kernel=3 padding=1 unit_norm=true"}, LK_DIMS(2, 2, 3, 1), 12, 27, 2},
    {{"local_conv_transpose", "filters=3 kernel=3 unit_norm=true"}, LK_DIMS(4, 2), 4, 9, 2},
};

TEST(rows_have_the_bits_of_their_definition)
{
    static _Alignas(64) char want[ROOM];
    for (int i = 0; i < 3 * 2 * LK_COUNT(kinds); i++) {
        int k = i / 6;
        lk_dtype dtype = i % 2 ? LK_F32 : LK_F64;
        lk_model *m = listed_model(
            (const char *const[]){kinds[k].layer[0], kinds[k].layer[1], NULL},
            &(lk_model_spec){.in = {dtype, kinds[k].in}, .dtype = dtype});
        int64_t bytes, elements = kinds[k].positions * kinds[k].n * kinds[k].filters;
        char name[64];
        ASSERT_OK(lk_threads_set(1 + i % 3));
        ASSERT_OK(lk_model_hold(m, NULL));
        snprintf(name, sizeof name, "%s1.weight", kinds[k].layer[0]);
        char *w = slice_of(lk_model_params(m), name, &bytes);
        ASSERT_EQ(bytes, elements * (int64_t)lk_dtype_size(dtype));
        ASSERT_TRUE(bytes <= ROOM && lk_model_has_constraints(m));
        memcpy(want, w, (size_t)bytes);
        for (int step = 0; step < 2; step++) { /* the second time they are at 1 nearly */
            rows_divide(dtype, want, kinds[k].positions, kinds[k].n, kinds[k].filters);
            ASSERT_TRUE(memcmp(want, w, (size_t)bytes) != 0 || step > 0);
            ASSERT_OK(lk_model_constrain(m));
            ASSERT_SAME_BITS(want, w, (size_t)bytes);
        }
        lk_model_free(m);
    }
    ASSERT_OK(lk_threads_set(1));
}

/* ---- which rows, and when ---- */

static const char *const codec[] = {"local_conv", "filters=3 kernel=3 unit_norm=true name=code",
                                    "local_conv_transpose",
                                    "filters=1 kernel=3 unit_norm=true tie=code.weight", NULL};

/* Both uses ask for it; it is done once. */
TEST(a_shared_parameter_is_brought_back_once)
{
    lk_model *m = listed_model(codec, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(6, 5, 1)}});
    int64_t bytes;
    float want[4 * 3 * 9 * 3];
    ASSERT_OK(lk_model_hold(m, NULL));
    void *w = slice_of(lk_model_params(m), "code.weight", &bytes);
    ASSERT_EQ(bytes, (int64_t)sizeof want);
    memcpy(want, w, sizeof want);
    rows_divide(LK_F32, want, 12, 9, 3);
    ASSERT_OK(lk_model_constrain(m));
    ASSERT_SAME_BITS(want, w, sizeof want);
    lk_model_free(m);
}

/* The use that shares it may be the one that asks. */
TEST(a_further_use_may_ask_for_it)
{
    static const char *const layers[] = {"local_conv", "filters=3 kernel=3 name=code",
                                         "local_conv_transpose",
                                         "filters=1 kernel=3 unit_norm=true tie=code.weight", NULL};
    static const char *const none[] = {"local_conv", "filters=3 kernel=3", NULL};
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(6, 5, 1)}};
    lk_model *m = listed_model(layers, &spec), *n = listed_model(none, &spec);
    ASSERT_TRUE(lk_model_has_constraints(m) && !lk_model_has_constraints(n));
    lk_model_free(m);
    lk_model_free(n);
}

TEST(what_is_frozen_stays)
{
    static const char *const layers[] = {"local_conv", "filters=2 kernel=2 unit_norm=true",
                                         "local_conv", "filters=2 kernel=2 unit_norm=true",
                                         "local_conv", "filters=2 kernel=2",
                                         NULL};
    static const char *const names[] = {"local_conv1.weight", "local_conv2.weight",
                                        "local_conv3.weight"};
    lk_model *m = listed_model(layers, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(5, 1)}});
    char *w[3], before[3][64];
    int64_t bytes[3];
    ASSERT_OK(lk_model_hold(m, NULL));
    for (int i = 0; i < 3; i++) {
        w[i] = slice_of(lk_model_params(m), names[i], &bytes[i]);
        memcpy(before[i], w[i], 32);
    }
    ASSERT_OK(lk_model_train_layers(m, (const char *const[]){"local_conv2", "local_conv3"}, 2));
    ASSERT_OK(lk_model_constrain(m));
    ASSERT_EQ(memcmp(w[0], before[0], 32), 0);
    ASSERT_TRUE(memcmp(w[1], before[1], 32) != 0);
    ASSERT_EQ(memcmp(w[2], before[2], 32), 0);
    lk_model_free(m);
}

/* Rows that cannot be divided by their norm. */
TEST(rows_of_zeros_and_rows_too_large_stay)
{
    static const char *const layers[] = {"local_conv", "filters=4 kernel=2 unit_norm=true", NULL};
    lk_model *m = listed_model(layers, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(2, 1)}});
    int64_t bytes;
    ASSERT_OK(lk_model_hold(m, NULL));
    float *w = (float *)(void *)slice_of(lk_model_params(m), "local_conv1.weight", &bytes);
    const float from[] = {0, 3e30F, 3, NAN, -0.0F, 1, -4, 1},
                to[] = {0, 3e30F, 3.0F / 5, NAN, -0.0F, 1, -4.0F / 5, 1};
    ASSERT_EQ(bytes, (int64_t)sizeof from);
    memcpy(w, from, sizeof from);
    ASSERT_OK(lk_model_constrain(m));
    ASSERT_SAME_BITS(w, to, sizeof to);
    lk_model_free(m);
}

/* ---- against another program ---- */

/* One step: the loss before it. */
static double step(lk_model *m, lk_optimizer *sgd, lk_accumulator *sums, lk_tensor *x, int64_t at)
{
    lk_tape *tape = NULL;
    lk_var v, y;
    lk_optimizer_input input = {.grads = lk_accumulator_slab(sums), .at = {.step = at}};
    ASSERT_OK(lk_tape_new(&tape));
    lk_accumulator_clear(sums);
    lk_accumulator_begin(sums);
    ASSERT_OK(lk_constant(tape, x, &v));
    ASSERT_OK(lk_model_forward(
        m, &(lk_pass){.tape = tape, .accumulator = sums, .training = true, .step = at}, v, &y));
    ASSERT_OK(lk_sub(y, v, &y));
    ASSERT_OK(lk_mul(y, y, &y));
    ASSERT_OK(lk_sum(y, NULL, &y));
    ASSERT_OK(lk_affine(y, 0.5 / SAMPLES, 0, &y));
    ASSERT_OK(lk_accumulator_add_loss(sums, y));
    ASSERT_OK(lk_backward(tape, &(lk_seed){y, NULL}, 1, 0));
    lk_tape_free(tape);
    ASSERT_OK(lk_accumulator_join_uses(sums));
    ASSERT_OK(lk_optimizer_step(sgd, &input, NULL));
    ASSERT_OK(lk_model_constrain(m));
    return lk_accumulator_loss(sums);
}

static void check_training(lk_dtype dtype, double tolerance)
{
    FILE *f = fopen("tests/data/unit_norm.txt", "r");
    char line[4096];
    double value[MOST_VALUES], loss = 0;
    lk_model *m = listed_model(codec,
                               &(lk_model_spec){.in = {dtype, LK_SHAPE(4, 4, 1)}, .dtype = dtype});
    lk_optimizer *sgd = NULL;
    lk_accumulator *sums = NULL;
    lk_tensor *x = NULL;
    int64_t bytes, steps = 0;
    void *data = NULL;
    ASSERT_OK(lk_model_hold(m, NULL));
    ASSERT_OK(lk_accumulator_new(m, &sums));
    ASSERT_OK(lk_optimizer_new(lk_model_params(m), "sgd", "rate=0.125", &sgd));
    ASSERT_OK(lk_tensor_zeros(dtype, LK_SHAPE(SAMPLES, 4, 4, 1), &x));
    ASSERT_OK(lk_tensor_writable_data(x, &data));
    void *w = slice_of(lk_model_params(m), "code.weight", &bytes);
    while (f && fgets(line, sizeof line, f)) {
        if (line[0] == '#')
            continue;
        if (sscanf(line, "loss %lf", &loss) == 1) {
            check_near("loss", step(m, sgd, sums, x, steps++), loss, tolerance);
            continue;
        }
        int n = read_values(line, value);
        if (strncmp(line, "tensor", 6) == 0)
            numbers_set(dtype, strncmp(line, "tensor x", 8) == 0 ? data : w, value, n);
        for (int i = 0; strncmp(line, "weight", 6) == 0 && i < n; i++)
            check_near("weight", real_get(dtype, w, i), value[i], tolerance);
    }
    ASSERT_EQ(steps, STEPS);
    ASSERT_EQ(fclose(f), 0);
    lk_tensor_free(x);
    lk_optimizer_free(sgd);
    lk_accumulator_free(sums);
    lk_model_free(m);
}

TEST(training_comes_to_what_another_program_says)
{
    check_training(LK_F64, 1e-13);
    check_training(LK_F32, 2e-5);
}

/* ---- refusals ---- */

static lk_status uneven_build(lk_build *build, const void *options, lk_tensor_type in,
                              lk_tensor_type *out)
{
    lk_config zero = {0};
    (void)options;
    LK_TRY(lk_descriptor_find(&lk_registry_init, "constant", &zero.descriptor));
    LK_TRY(lk_build_param(build, &(lk_param){.name = "w",
                                             .shape = LK_SHAPE(3, 4),
                                             .init = &zero,
                                             .unit = {.n = 5, .inner = 1}}));
    *out = in;
    return LK_OK;
}

static const lk_layer uneven = {.descriptor = {.name = "uneven", .summary = "wrong rows"},
                                .build = uneven_build};

/* A layer whose units are cut, with a row of norm 1 for each. */
static lk_status cut_build(lk_build *build, const void *options, lk_tensor_type in,
                           lk_tensor_type *out)
{
    static double one = 1;
    lk_config init = {.descriptor = &lk_inits[0]->descriptor, .options = &one};
    (void)options;
    LK_TRY(lk_build_param(
        build,
        &(lk_param){
            .name = "w", .shape = LK_SHAPE(3, 6), .init = &init, .cut = {6, 1}, .unit = {3, 6}}));
    lk_build_features(build, LK_FEATURES_OUT);
    *out = in;
    return LK_OK;
}

static const lk_layer cut_layer = {.descriptor = {.name = "cut", .summary = "cut rows"},
                                   .build = cut_build};

TEST(what_cannot_be_done_is_refused)
{
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(6, 5, 1)},
                          .pieces = {.blocks = 3, .least_block = 1}};
    lk_model *m = NULL, *own = NULL;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add_config(m, &(lk_config){.descriptor = &cut_layer.descriptor}));
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_FAILS(lk_model_constrain(m), LK_ESTATE, "holds no parameters yet");
    ASSERT_OK(lk_model_hold(m, &(lk_holding){.blocks = &(lk_range){1, 2}}));
    ASSERT_FAILS(lk_model_constrain(m), LK_ENOTSUP,
                 "cut1.w has rows of norm 1, but of f32[3,2:6] the model holds");
    lk_model_free(m);
    ASSERT_OK(lk_model_new(&own));
    ASSERT_OK(lk_model_add_config(own, &(lk_config){.descriptor = &uneven.descriptor}));
    ASSERT_FAILS(lk_model_build(own, &spec), LK_ESHAPE, "uneven1.w [3,4] is not [...][5][1]");
    lk_model_free(own);
}

static lk_status hold_and_constrain(void)
{
    lk_status st;
    lk_model *m = NULL;
    LK_TRY_TO(done, lk_model_new(&m));
    for (int i = 0; codec[i]; i += 2)
        LK_TRY_TO(done, lk_model_add(m, codec[i], codec[i + 1]));
    LK_TRY_TO(done, lk_model_build(m, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(6, 5, 1)}}));
    LK_TRY_TO(done, lk_model_hold(m, NULL));
    LK_TRY_TO(done, lk_model_constrain(m));
done:
    lk_model_free(m);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(hold_and_constrain) > 10);
}
