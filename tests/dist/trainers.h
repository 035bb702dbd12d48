/* Trainers and jobs of tests: what the first steps of an experiment with settings come to, and a
 * trainer on thirty samples of two classes, whose model and loss the test says. */
#ifndef LK_TESTS_TRAINERS_H
#define LK_TESTS_TRAINERS_H

#include "ranks.h"

#include <lockstep/train.h>

enum { STEPS = 7, MAX_SETTINGS = 4 };

/* The experiment `network` with the settings up to the first that is NULL. */
static inline lk_status job_of(const char *network, lk_comm *comm, const char *const *settings,
                               lk_experiment **e, lk_job **job)
{
    int n = 0;
    while (n < MAX_SETTINGS && settings[n])
        n++;
    ASSERT_OK(lk_experiment_parse("test", network, settings, n, e));
    return lk_job_new(*e, comm, job);
}

static inline void job_end(lk_job *job, lk_experiment *e)
{
    lk_job_free(job);
    lk_experiment_free(e);
}

static inline uint64_t state_of(lk_trainer *trainer)
{
    uint64_t state;
    ASSERT_OK(lk_trainer_hash(trainer, &state));
    return state;
}

/* What a training came to. */
typedef struct outcome {
    uint64_t state;
    double loss[STEPS], seen, seen_accuracy, test, test_accuracy;
} outcome;

static inline outcome train_steps(const char *network, lk_comm *comm, const char *const *settings)
{
    outcome out = {.state = 0};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_eval score;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    for (int i = 0; i < STEPS; i++) {
        lk_step_report report;
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), &report));
        out.loss[i] = report.loss;
    }
    ASSERT_OK(lk_trainer_train_metrics(lk_job_trainer(job), &score));
    out.seen = score.loss;
    out.seen_accuracy = score.value[0];
    ASSERT_OK(lk_trainer_evaluate(lk_job_trainer(job), lk_job_loader(job, LK_TEST), &score));
    out.test = score.loss;
    out.test_accuracy = score.value[0];
    ASSERT_OK(lk_trainer_hash(lk_job_trainer(job), &out.state));
    job_end(job, e);
    return out;
}

/* A parameter of one rank that is not a number stops all of `network` in the same step. */
static inline void expect_stop_at_nan(const char *network, lk_comm *comm)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_tensor *w = NULL;
    ASSERT_OK(
        job_of(network, comm, (const char *[MAX_SETTINGS]){"parallel.update=each"}, &e, &job));
    ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    lk_slab *params = lk_model_params(lk_trainer_model(lk_job_trainer(job)));
    ASSERT_OK(lk_slab_find(params, "linear1.bias", &w));
    if (lk_comm_rank(comm) == 0)
        ASSERT_OK(lk_tensor_set_f64(w, LK_AT(3), (double)NAN));
    lk_tensor_free(w);
    ASSERT_FAILS(lk_trainer_step(lk_job_trainer(job), NULL), LK_ENAN,
                 "parameter linear1.bias is not finite at element 3");
    job_end(job, e);
}

enum { SMALL_SAMPLES = 30, SMALL_FEATURES = 4 };

typedef struct small_trainer {
    float x[SMALL_SAMPLES * SMALL_FEATURES];
    int64_t y[SMALL_SAMPLES];
    lk_tensor *tensor[2]; /* of x and y */
    lk_dataset *set;
    lk_loader *loader; /* batches of 8 in 8 pieces */
    lk_model *model;
    lk_arena *arena;
    lk_trainer_spec spec;
    lk_trainer_options options;
    lk_trainer *trainer;
} small_trainer;

/* Make all but layers, loss and trainer. */
static inline void small_begin(small_trainer *s, lk_comm *comm)
{
    lk_dataset_info info = {
        .name = "t", .classes = 2, .n_fields = 2, .field = {{.name = "x"}, {.name = "y"}}};
    for (int i = 0; i < SMALL_SAMPLES * SMALL_FEATURES; i++)
        s->x[i] = (float)(i % 7 + i % 11);
    for (int i = 0; i < SMALL_SAMPLES; i++)
        s->y[i] = i % 2;
    ASSERT_OK(lk_tensor_wrap(LK_F32, LK_SHAPE(SMALL_SAMPLES, SMALL_FEATURES), s->x, NULL, NULL,
                             &s->tensor[0]));
    ASSERT_OK(lk_tensor_wrap(LK_I64, LK_SHAPE(SMALL_SAMPLES), s->y, NULL, NULL, &s->tensor[1]));
    ASSERT_OK(lk_dataset_from_tensors(&info, s->tensor, &s->set));
    ASSERT_OK(lk_loader_new_options(
        s->set, &(lk_loader_options){.batch = 8, .shards = 8, .scale = 1}, 1, &s->loader));
    ASSERT_OK(lk_model_new(&s->model));
    ASSERT_OK(lk_arena_new(&s->arena));
    s->spec = (lk_trainer_spec){.comm = comm, .epochs = 1, .model = s->model, .train = s->loader};
    s->options = (lk_trainer_options){.metrics = {0, NULL}};
    ASSERT_OK(
        lk_config_parse(&lk_registry_optimizer, "sgd", NULL, s->arena, &s->options.optimizer));
}

/* Make the trainer of the model, which has its layers, and of options.loss. */
static inline void small_build(small_trainer *s)
{
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(SMALL_FEATURES)}};
    ASSERT_OK(lk_model_build(s->model, &spec));
    if (s->spec.parallel.stages <= 1) /* of which each rank holds some layers */
        ASSERT_OK(lk_model_hold(s->model, NULL));
    ASSERT_OK(lk_trainer_new_options(&s->spec, &s->options, &s->trainer));
}

static inline void small_free(small_trainer *s)
{
    lk_trainer_free(s->trainer);
    lk_arena_free(s->arena);
    lk_model_free(s->model);
    lk_loader_free(s->loader);
    lk_dataset_free(s->set);
    lk_tensor_free(s->tensor[0]);
    lk_tensor_free(s->tensor[1]);
}

#endif /* LK_TESTS_TRAINERS_H */
