/* What goes wrong in a model that is cut into stages: samples that the first stage, or what is to come out that
 * the last one, cannot read stop all ranks in that step, which can be tried again; and what is not finite is
 * named in the words of one rank, whichever stage and micro-batch it comes up in. */
#include "trainers.h"

#include <lockstep/extra/pipeline.h>

#include <math.h>

enum { SAMPLES = 32, BATCH = 16, SHARDS = 8, FEATURES = 4, LAYERS = 8 };

/* What a rank has of the set: a field that it cannot read, -1 being none; and values of two samples. */
typedef struct planted {
    int unread;
    int64_t at[2];
    float value[2];
} planted;

/* The first units of a sample are 1; field 1 is what is to come out, 2 numbers, of which each stage can be told
 * what to read. */
static lk_status planted_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    const planted *p = context;
    float *value = out;
    LK_CHECK(field != p->unread || index != BATCH + 5, LK_EIO, "sample %d is not there", BATCH + 5);
    for (int64_t i = 0; i < box->n[0]; i++) {
        value[i] = field == 0 ? 1.0F : (float)(index % 2);
        for (int k = 0; k < 2; k++)
            if (field == 0 && index == p->at[k])
                value[i] = p->value[k];
    }
    return LK_OK;
}

/* A model whose layers each make values 100 times as large, and which stays as it is. */
typedef struct large_trainer {
    planted data;
    lk_dataset *set;
    lk_loader *loader;
    lk_model *model;
    lk_trainer *trainer;
} large_trainer;

/* All but the trainer; layer `marked` has a mark, -1: none. */
static void large_make(large_trainer *s, const planted *data, int marked)
{
    lk_dataset_info info = {
        .name = "t",
        .count = SAMPLES,
        .n_fields = 2,
        .field = {{"x", LK_F32, LK_SHAPE(FEATURES)}, {"y", LK_F32, LK_SHAPE(FEATURES)}}};
    lk_loader_options batches = {.batch = BATCH, .shards = SHARDS, .scale = 1};
    *s = (large_trainer){.data = *data};
    ASSERT_OK(lk_dataset_new_boxes(&info, NULL, planted_box, NULL, &s->data, &s->set));
    ASSERT_OK(lk_loader_new_options(s->set, &batches, 1, &s->loader));
    ASSERT_OK(lk_model_new(&s->model));
    for (int i = 0; i < LAYERS; i++)
        ASSERT_OK(lk_model_add(s->model, "linear",
                               i == marked ? "units=4 init=constant(value=25) stage=true"
                                           : "units=4 init=constant(value=25)"));
    ASSERT_OK(lk_model_build(s->model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(FEATURES)}}));
}

static void large_begin(large_trainer *s, lk_comm *comm, const lk_parallel_options *parallel,
                        const planted *data)
{
    large_make(s, data, -1);
    lk_trainer_spec spec = {.comm = comm, .epochs = 9, .model = s->model, .train = s->loader};
    if (parallel)
        spec.parallel = *parallel;
    ASSERT_OK(lk_trainer_new(&spec, "loss=mean_squared_error optimizer=sgd(rate=0)", &s->trainer));
}

static void large_free(large_trainer *s)
{
    lk_trainer_free(s->trainer);
    lk_model_free(s->model);
    lk_loader_free(s->loader);
    lk_dataset_free(s->set);
}

/* As many stages as there are ranks. */
static lk_parallel_options stages_of(const lk_comm *comm)
{
    return (lk_parallel_options){.stages = lk_comm_size(comm), .features = 1, .lag = -1};
}

/* ---- samples that cannot be read ---- */

static void unread_stops_all(lk_comm *comm, int rank, int field, lk_pipeline_kind schedule)
{
    large_trainer s;
    lk_eval score;
    lk_parallel_options parallel = stages_of(comm);
    parallel.schedule = (int)schedule;
    large_begin(&s, comm, &parallel, &(planted){.unread = -1, .at = {-1, -1}});
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &score));
    double loss = score.loss;
    uint64_t before = state_of(s.trainer);
    s.data.unread = lk_comm_rank(comm) == rank ? field : -1;
    ASSERT_EQ(lk_trainer_step(s.trainer, NULL), LK_EIO);
    ASSERT_TRUE(strstr(lk_error_message(), "sample 21 is not there"));
    ASSERT_FAILS(lk_trainer_evaluate(s.trainer, s.loader, &score), LK_EIO,
                 "sample 21 is not there");
    ASSERT_TRUE(state_of(s.trainer) == before);
    s.data.unread = -1;
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &score));
    ASSERT_TRUE(loss == score.loss);
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    large_free(&s);
}

RANKS_TEST(samples_that_the_first_stage_cannot_read_stop_all)
{
    for (int k = 0; k < LK_PIPELINE_FORWARD; k++)
        unread_stops_all(comm, 0, 0, (lk_pipeline_kind)k);
}

RANKS_TEST(labels_that_the_last_stage_cannot_read_stop_all)
{
    for (int k = 0; k < LK_PIPELINE_FORWARD; k++)
        unread_stops_all(comm, lk_comm_size(comm) - 1, 1, (lk_pipeline_kind)k);
}

/* ---- what is not finite ---- */

/* What a training of one rank says in step 1, and one on stages: the same. */
static void expect_words(lk_comm *comm, const planted *data, const char *want)
{
    large_trainer s;
    lk_parallel_options parallel = stages_of(comm);
    for (int i = 0; i < 3; i++) {
        parallel.micro_batch = i - 1;
        large_begin(&s, i > 0 ? comm : NULL, i > 0 ? &parallel : NULL, data);
        ASSERT_OK(lk_trainer_step(s.trainer, NULL));
        ASSERT_FAILS(lk_trainer_step(s.trainer, NULL), LK_ENAN, want);
        large_free(&s);
    }
}

/* Of two micro-batches the later one has the layer that comes first. */
RANKS_TEST(the_first_layer_that_is_not_finite_is_named)
{
    expect_words(comm, &(planted){-1, {BATCH + 2, BATCH + 13}, {1e23F, 1e35F}},
                 "step 1: the loss is inf: the first tensor that is not finite is the output of "
                 "layer linear2");
    expect_words(comm, &(planted){-1, {BATCH + 2, BATCH + 13}, {1e23F, 1e25F}},
                 "step 1: the loss is inf: the first tensor that is not finite is the output of "
                 "layer linear7");
}

RANKS_TEST(data_that_is_not_finite_is_named)
{
    expect_words(comm, &(planted){-1, {BATCH + 9, BATCH + 3}, {(float)NAN, 1e35F}},
                 "step 1: the loss is nan, because the data is not finite: element 0 of x, sample "
                 "25 of the set");
}

/* ---- ranks that would cut the model in other places ---- */

RANKS_TEST(ranks_with_other_marks_are_refused)
{
    large_trainer s;
    int size = lk_comm_size(comm);
    if (size == 1)
        return;
    large_make(&s, &(planted){.unread = -1, .at = {-1, -1}},
               lk_comm_rank(comm) == size - 1 ? 1 : 6);
    lk_trainer_spec spec = {.comm = comm,
                            .epochs = 9,
                            .model = s.model,
                            .train = s.loader,
                            .parallel = stages_of(comm)};
    ASSERT_FAILS(lk_trainer_new(&spec, "loss=mean_squared_error optimizer=sgd(rate=0)", &s.trainer),
                 LK_ESTATE, "other layers");
    large_free(&s);
}
