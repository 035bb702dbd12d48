/* An evaluation is steps without backward: ranks share each batch, one small call for each joins its losses, and
 * a batch that one rank cannot do is done by none, which ends the evaluation and nothing else. */
#include "comm/comm.h"
#include "train/trainer.h"
#include "trainers.h"

#include <lockstep/metric.h>

static _Thread_local bool fails; /* the metric, on this rank: a thread, or a process */

static lk_status count_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    (void)out;
    (void)target;
    return LK_OK;
}

static int64_t count_numbers(const void *options, lk_tensor_type out)
{
    (void)options;
    (void)out;
    return 1;
}

static lk_status count_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                           double *number)
{
    (void)options;
    (void)target;
    LK_CHECK(!fails, LK_ENOTSUP, "planted in a pass");
    number[0] += (double)lk_tensor_shape(y).dim[0];
    return LK_OK;
}

static double count_value(const void *options, lk_tensor_type out, const double *number)
{
    (void)options;
    (void)out;
    return number[0];
}

static const lk_metric counted = {.descriptor = {.name = "counted", .summary = "samples"},
                                  .check = count_check,
                                  .numbers = count_numbers,
                                  .add = count_add,
                                  .value = count_value};

static void trainer_make(small_trainer *s, lk_config *metric, lk_comm *comm)
{
    *metric = (lk_config){.descriptor = &counted.descriptor};
    small_begin(s, comm);
    ASSERT_OK(lk_model_add(s->model, "linear", "units=5"));
    ASSERT_OK(lk_model_add(s->model, "batch_norm", "statistics=batch"));
    ASSERT_OK(lk_model_add(s->model, "tanh", NULL));
    ASSERT_OK(lk_model_add(s->model, "linear", "units=2"));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s->arena,
                              &s->options.loss));
    s->options.metrics = (lk_configs){1, metric};
    small_build(s);
    ASSERT_OK(lk_trainer_step(s->trainer, NULL));
}

/* The trainer is as it was, and so is the evaluation. */
static void expect_unharmed(small_trainer *s, uint64_t state, const lk_eval *before)
{
    lk_eval score;
    ASSERT_TRUE(state_of(s->trainer) == state);
    ASSERT_OK(lk_trainer_evaluate(s->trainer, s->loader, &score));
    ASSERT_TRUE(score.samples == SMALL_SAMPLES && score.value[0] == SMALL_SAMPLES);
    ASSERT_TRUE(score.loss == before->loss);
    ASSERT_OK(lk_trainer_step(s->trainer, NULL));
}

/* Sample 17, of the third batch, has a label that does not exist. */
RANKS_TEST(samples_that_one_rank_cannot_read_stop_all)
{
    small_trainer s;
    lk_config metric;
    lk_eval before, score;
    trainer_make(&s, &metric, comm);
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &before));
    uint64_t state = state_of(s.trainer);
    s.y[17] = 5; /* behind the back of the set, which would refuse it */
    ASSERT_EQ(lk_trainer_evaluate(s.trainer, s.loader, &score), LK_EIO);
    ASSERT_TRUE(strstr(lk_error_message(), "sample 17 has the label 5"));
    int64_t mine = strncmp(lk_error_message(), "rank ", 5) != 0;
    ASSERT_OK(lk_allreduce(comm, NULL, &mine, 1, LK_I64, LK_REDUCE_SUM, "who has it"));
    ASSERT_EQ(mine, 1);
    s.y[17] = 1;
    expect_unharmed(&s, state, &before);
    small_free(&s);
}

RANKS_TEST(a_pass_that_fails_on_one_rank_fails_on_all)
{
    small_trainer s;
    lk_config metric;
    lk_eval before, score;
    trainer_make(&s, &metric, comm);
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &before));
    uint64_t state = state_of(s.trainer);
    fails = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    ASSERT_FAILS(lk_trainer_evaluate(s.trainer, s.loader, &score), LK_ENOTSUP, "planted in a pass");
    fails = false;
    expect_unharmed(&s, state, &before);
    small_free(&s);
}

/* Loss and samples by a loader of such batches, and the collective calls that it took. */
static lk_eval evaluate(small_trainer *s, int64_t batch, int64_t *calls)
{
    lk_loader *loader = NULL;
    lk_eval score;
    ASSERT_OK(lk_loader_new_options(
        s->set, &(lk_loader_options){.batch = batch, .shards = 1, .scale = 1}, 1, &loader));
    const lk_comm *world = s->trainer->mesh->world;
    *calls = world ? world->n_calls : 0;
    ASSERT_OK(lk_trainer_evaluate(s->trainer, loader, &score));
    *calls = world ? world->n_calls - *calls : 0;
    lk_loader_free(loader);
    return score;
}

/* Batches of training are of 8 samples: those of 16 and of 30 are gone through in such parts. */
RANKS_TEST(larger_batches_are_gone_through_in_parts)
{
    small_trainer s;
    lk_config metric;
    int64_t calls, same;
    trainer_make(&s, &metric, comm);
    lk_eval want = evaluate(&s, 8, &calls);
    for (int64_t batch = 16; batch <= 32; batch += 16) {
        lk_eval score = evaluate(&s, batch, &same);
        ASSERT_TRUE(score.samples == SMALL_SAMPLES && score.value[0] == SMALL_SAMPLES);
        ASSERT_TRUE(score.loss == want.loss);
        ASSERT_EQ(same, calls);
    }
    small_free(&s);
}

/* 30 samples: 4 batches of 8, 8 of 4, 15 of 2. */
RANKS_TEST(a_batch_takes_one_call)
{
    small_trainer s;
    lk_config metric;
    int64_t four, eight, fifteen;
    trainer_make(&s, &metric, comm);
    (void)evaluate(&s, 8, &four);
    (void)evaluate(&s, 4, &eight);
    (void)evaluate(&s, 2, &fifteen);
    if (lk_comm_size(comm) > 1) {
        ASSERT_EQ(eight - four, 4);
        ASSERT_EQ(fifteen - eight, 7);
    }
    small_free(&s);
}
