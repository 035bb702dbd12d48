/* Trainers: learning, bits that do not depend on the cut, and what goes wrong. */
#include "faults.h"
#include "training.h"

#include <lockstep/extra/isa.h>
#include <lockstep/thread.h>
#include <lockstep/train.h>

enum { SAMPLES = 30, FEATURES = 6 };

/* Samples of two classes: whether the first feature is larger than the second. */
static float features[SAMPLES * FEATURES];
static int64_t classes[SAMPLES];

static lk_dataset *set_new(lk_shape sample)
{
    lk_shape shape = {.ndim = sample.ndim + 1, .dim = {SAMPLES}};
    lk_tensor *x, *y;
    for (int i = 0; i < sample.ndim; i++)
        shape.dim[i + 1] = sample.dim[i];
    ASSERT_OK(lk_rng_uniform_f32(lk_rng_start(3, "x", "test"), (lk_rng_at){0}, SAMPLES * FEATURES,
                                 features));
    for (int i = 0; i < SAMPLES; i++)
        classes[i] = features[i * FEATURES] > features[i * FEATURES + 1];
    ASSERT_OK(lk_tensor_wrap(LK_F32, shape, features, NULL, NULL, &x));
    ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(SAMPLES), classes, NULL, NULL, &y));
    return training_set(x, y, 2);
}

/* All but the trainer. */
static lk_status parts_make(struct training *t, const char *layer, const char *options,
                            int64_t shards)
{
    lk_loader_options loader = {.batch = 8, .shards = shards, .shuffle = true, .scale = 1};
    LK_TRY(lk_loader_new_options(t->set, &loader, 1, &t->loader));
    LK_TRY(lk_model_new(&t->model));
    LK_TRY(lk_model_add(t->model, layer, options));
    LK_TRY(lk_model_add(t->model, "tanh", NULL));
    LK_TRY(lk_model_add(t->model, "linear", "units=2"));
    lk_field x = lk_loader_field(t->loader, 0);
    LK_TRY(lk_model_build(t->model, &(lk_model_spec){.in = {x.dtype, x.shape}, .seed = 1}));
    return LK_TRACE(lk_model_hold(t->model, NULL));
}

static lk_status training_make(struct training *t, const char *layer, const char *options,
                               const char *rate, int64_t shards)
{
    char text[128];
    snprintf(text, sizeof text, "loss=softmax_cross_entropy metrics=accuracy optimizer=sgd(%s)",
             rate);
    LK_TRY(parts_make(t, layer, options, shards));
    lk_trainer_spec spec = {.model = t->model, .train = t->loader, .epochs = 50};
    return LK_TRACE(lk_trainer_new(&spec, text, &t->trainer));
}

static struct training training_new(lk_shape sample, const char *layer, const char *options,
                                    const char *rate)
{
    struct training t = {.set = set_new(sample)};
    ASSERT_OK(training_make(&t, layer, options, rate, 4));
    return t;
}

TEST(training_learns)
{
    struct training t = training_new(LK_SHAPE(FEATURES), "linear", "units=8", "rate=0.5");
    lk_eval before, after, seen;
    ASSERT_OK(lk_trainer_evaluate(t.trainer, t.loader, &before));
    ASSERT_EQ(before.samples, SAMPLES);
    lk_step_report report;
    while (lk_trainer_position(t.trainer).epoch < 50)
        ASSERT_OK(lk_trainer_step(t.trainer, &report));
    ASSERT_EQ(report.step, 50 * 4 - 1);
    ASSERT_EQ(report.samples, 6); /* the last batch of 30 is partial */
    ASSERT_OK(lk_trainer_train_metrics(t.trainer, &seen));
    ASSERT_EQ(seen.samples, 50 * SAMPLES);
    ASSERT_OK(lk_trainer_evaluate(t.trainer, t.loader, &after));
    ASSERT_TRUE(after.loss < 0.3 * before.loss && after.value[0] > 0.9);
    training_free(&t);
}

/* Ten steps by a text and ten by configs: parameters and the state of the optimizer. */
TEST(texts_and_configs_give_the_same_bits)
{
    struct training a = training_new(LK_SHAPE(FEATURES), "linear", "units=8",
                                     "rate=0.5 momentum=0.9 schedule=linear(to=0.1)");
    struct training b = {.set = set_new(LK_SHAPE(FEATURES))};
    lk_config metric;
    lk_trainer_options options = {.metrics = {1, &metric}};
    uint64_t hash[2];
    ASSERT_OK(parts_make(&b, "linear", "units=8", 4));
    ASSERT_OK(lk_arena_new(&b.arena));
    ASSERT_OK(
        lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, b.arena, &options.loss));
    ASSERT_OK(lk_config_parse(&lk_registry_metric, "accuracy", NULL, b.arena, &metric));
    ASSERT_OK(lk_config_parse(&lk_registry_optimizer, "sgd",
                              "rate=0.5 momentum=0.9 schedule=linear(to=0.1)", b.arena,
                              &options.optimizer));
    lk_trainer_spec spec = {.model = b.model, .train = b.loader, .epochs = 50};
    ASSERT_OK(lk_trainer_new_options(&spec, &options, &b.trainer));
    for (int i = 0; i < 10; i++) {
        ASSERT_OK(lk_trainer_step(a.trainer, NULL));
        ASSERT_OK(lk_trainer_step(b.trainer, NULL));
    }
    lk_slab *w = lk_model_params(a.model);
    ASSERT_SAME_BITS(lk_slab_data(w), lk_slab_data(lk_model_params(b.model)),
                     (size_t)lk_slab_layout_bytes(lk_slab_layout_of(w)));
    ASSERT_OK(lk_trainer_hash(a.trainer, &hash[0]));
    ASSERT_OK(lk_trainer_hash(b.trainer, &hash[1]));
    ASSERT_TRUE(hash[0] == hash[1]);
    training_free(&a);
    training_free(&b);
}

TEST(wrong_texts_are_told_with_their_place)
{
    static const char *const wrong[][2] = {
        {NULL, "trainer needs the option \"loss\""},
        {"loss=mean_squared_error", "trainer needs the option \"optimizer\""},
        {"los=mean_squared_error",
         "options, column 1: trainer has no option \"los\"; did you mean \"loss\"?"},
        {"optimizer=sgd loss=softmax_crossentropy",
         "options, column 20: trainer: loss: unknown loss \"softmax_crossentropy\"; did you mean "
         "\"softmax_cross_entropy\"?"},
        {"loss=softmax_cross_entropy optimizer=sgd(rate=0.1 momentun=0.9)",
         "options, column 51: trainer: optimizer: optimizer sgd has no option \"momentun\"; did "
         "you "
         "mean \"momentum\"?"},
        {"loss=softmax_cross_entropy optimizer=sgd metrics=accuracy,acuracy",
         "options, column 59: trainer: metrics: unknown metric \"acuracy\"; did you mean"},
    };
    struct training t = {.set = set_new(LK_SHAPE(FEATURES))};
    ASSERT_OK(parts_make(&t, "linear", "units=8", 4));
    lk_trainer_spec spec = {.model = t.model, .train = t.loader, .epochs = 1};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ASSERT_FAILS(lk_trainer_new(&spec, wrong[i][0], &t.trainer), LK_EINVAL, wrong[i][1]);
        ASSERT_TRUE(!t.trainer);
    }
    ASSERT_FAILS(
        lk_trainer_new_options(&spec, &(lk_trainer_options){.metrics = {0, NULL}}, &t.trainer),
        LK_EINVAL, "loss or optimizer is not given");
    ASSERT_FAILS(lk_trainer_new_options(&spec, NULL, &t.trainer), LK_EINVAL, "options is NULL");
    training_free(&t);
}

/* The state after some steps. */
static uint64_t state_after(lk_shape sample, const char *layer, const char *options, int steps)
{
    struct training t = training_new(sample, layer, options, "rate=0.5 momentum=0.9");
    for (int i = 0; i < steps; i++)
        ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    uint64_t hash;
    ASSERT_OK(lk_trainer_hash(t.trainer, &hash));
    training_free(&t);
    return hash;
}

TEST(the_state_is_the_same_everywhere)
{
    uint64_t linear = state_after(LK_SHAPE(FEATURES), "linear", "units=8", 6),
             norm = state_after(LK_SHAPE(3, 2), "rnn", "units=4", 6);
    for (lk_isa isa = LK_ISA_SCALAR; isa < LK_N_ISAS; isa = (lk_isa)(isa + 1))
        for (int threads = 1; threads <= 2 && lk_isa_is_available(isa); threads++) {
            ASSERT_OK(lk_isa_set(isa));
            ASSERT_OK(lk_threads_set(threads));
            ASSERT_TRUE(state_after(LK_SHAPE(FEATURES), "linear", "units=8", 6) == linear);
            ASSERT_TRUE(state_after(LK_SHAPE(3, 2), "rnn", "units=4", 6) == norm);
        }
    ASSERT_TRUE(state_after(LK_SHAPE(FEATURES), "linear", "units=8", 7) != linear);
}

TEST(a_step_allocates_nothing_after_the_first_epoch)
{
    struct training t = training_new(LK_SHAPE(FEATURES), "linear", "units=8", "rate=0.1");
    for (int i = 0; i < 8; i++)
        ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    int64_t calls = lk_alloc_stats_now().calls;
    for (int i = 0; i < 8; i++)
        ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
    training_free(&t);
}

TEST(a_loss_that_is_not_finite_names_its_tensor)
{
    struct training t = training_new(LK_SHAPE(FEATURES), "linear", "units=8", "rate=0.1");
    lk_tensor *w = NULL;
    ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    ASSERT_OK(lk_slab_find(lk_model_params(t.model), "linear2.weight", &w));
    ASSERT_OK(lk_tensor_set_f64(w, LK_AT(1, 0), (double)NAN));
    uint64_t before, after;
    ASSERT_OK(lk_trainer_hash(t.trainer, &before));
    ASSERT_FAILS(lk_trainer_step(t.trainer, NULL), LK_ENAN,
                 "step 1: the loss is nan, because parameter linear2.weight is not finite at "
                 "element 2");
    ASSERT_OK(lk_trainer_hash(t.trainer, &after));
    ASSERT_TRUE(after == before);
    ASSERT_OK(lk_tensor_fill_f64(w, 3e38));
    ASSERT_FAILS(lk_trainer_step(t.trainer, NULL), LK_ENAN, "the output of layer linear2");
    lk_tensor_free(w);
    training_free(&t);
}

TEST(parts_that_do_not_fit_are_refused)
{
    struct training t = {.set = set_new(LK_SHAPE(FEATURES))};
    ASSERT_FAILS(training_make(&t, "linear", "units=8", "nesterov=true", 4), LK_EINVAL, "nesterov");
    training_free(&t);
}

/* A trainer needs a model that holds all of itself, or nothing yet. */
TEST(a_model_that_holds_a_part_is_refused)
{
    struct training t = {.set = set_new(LK_SHAPE(FEATURES))};
    const char *const how = "loss=softmax_cross_entropy optimizer=sgd(rate=0.1)";
    lk_loader_options loader = {.batch = 8, .shards = 2, .scale = 1};
    lk_trainer *trainer = NULL;
    ASSERT_OK(lk_loader_new_options(t.set, &loader, 1, &t.loader));
    ASSERT_OK(lk_model_new(&t.model));
    ASSERT_OK(lk_model_add(t.model, "linear", "units=2"));
    ASSERT_OK(lk_model_add(t.model, "linear", "units=2"));
    lk_field x = lk_loader_field(t.loader, 0);
    lk_trainer_spec spec = {.model = t.model, .train = t.loader, .epochs = 1};
    ASSERT_FAILS(lk_trainer_new(&spec, how, &trainer), LK_ESTATE, "not built");
    ASSERT_OK(lk_model_build(t.model, &(lk_model_spec){.in = {x.dtype, x.shape}}));
    ASSERT_OK(lk_model_hold(t.model, &(lk_holding){.layers = &(lk_range){1, 1}}));
    ASSERT_FAILS(lk_trainer_new(&spec, how, &trainer), LK_ESTATE,
                 "layer linear1: of linear1.weight");
    training_free(&t);
}

TEST(a_model_that_holds_nothing_holds_all_then)
{
    struct training t = {.set = set_new(LK_SHAPE(FEATURES))};
    lk_loader_options loader = {.batch = 8, .shards = 2, .scale = 1};
    ASSERT_OK(lk_loader_new_options(t.set, &loader, 1, &t.loader));
    ASSERT_OK(lk_model_new(&t.model));
    ASSERT_OK(lk_model_add(t.model, "linear", "units=3"));
    lk_field x = lk_loader_field(t.loader, 0);
    ASSERT_OK(lk_model_build(t.model, &(lk_model_spec){.in = {x.dtype, x.shape}}));
    lk_trainer_spec spec = {.model = t.model, .train = t.loader, .epochs = 1};
    ASSERT_OK(lk_trainer_new(&spec, "loss=softmax_cross_entropy optimizer=sgd", &t.trainer));
    ASSERT_TRUE(lk_slab_layout_is_whole(lk_slab_layout_of(lk_model_params(t.model)), NULL));
    ASSERT_OK(lk_trainer_step(t.trainer, NULL));
    training_free(&t);
}

/* A set without fields gives a model nothing to learn and nothing to be scored on. */
TEST(an_empty_set_is_refused)
{
    struct training t = {.set = set_new(LK_SHAPE(FEATURES))};
    lk_dataset *hollow;
    lk_loader *empty;
    lk_trainer *trainer;
    lk_eval eval;
    ASSERT_OK(training_make(&t, "linear", "units=3", "rate=0.1", 2));
    ASSERT_OK(lk_dataset_new_empty_like(t.set, &hollow));
    ASSERT_OK(lk_loader_new(hollow, "batch=8 shards=2", 1, &empty));
    lk_trainer_spec spec = {.model = t.model, .train = empty, .epochs = 1};
    ASSERT_FAILS(
        lk_trainer_new(&spec, "loss=softmax_cross_entropy optimizer=sgd", &trainer), LK_EINVAL,
        "the data is empty: it has 30 samples without x and y, a model has nothing to learn there");
    ASSERT_FAILS(lk_trainer_evaluate(t.trainer, empty, &eval), LK_EINVAL,
                 "the data is empty: samples without x and y, nothing can be computed of them");
    lk_loader_free(empty);
    lk_dataset_free(hollow);
    training_free(&t);
}

static lk_status make_and_step(void)
{
    struct training t = {.set = NULL};
    lk_dataset_info info = {
        .name = "t", .classes = 2, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    lk_tensor *tensor[2] = {NULL};
    lk_status st;
    LK_TRY_TO(done, lk_tensor_wrap(LK_F32, LK_SHAPE(SAMPLES, FEATURES), features, NULL, NULL,
                                   &tensor[0]));
    LK_TRY_TO(done, lk_tensor_wrap(LK_I64, LK_SHAPE(SAMPLES), classes, NULL, NULL, &tensor[1]));
    LK_TRY_TO(done, lk_dataset_from_tensors(&info, tensor, &t.set));
    LK_TRY_TO(done, training_make(&t, "linear", "units=3", "rate=0.1", 2));
done:
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    training_free(&t);
    return st;
}

TEST(every_allocation_may_fail)
{
    lk_dataset_free(set_new(LK_SHAPE(FEATURES)));
    ASSERT_TRUE(test_every_allocation_fails(make_and_step) > 10);
}
