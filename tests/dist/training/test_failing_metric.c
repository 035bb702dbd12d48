/* A metric that fails on some rank fails on all, and what was counted is not lost. */
#include "trainers.h"

#include <lockstep/loss.h>
#include <lockstep/metric.h>

#include <math.h>

static _Thread_local bool fails; /* each rank is a thread, or a process */

static lk_status metric_check(const void *options, lk_tensor_type out, lk_tensor_type target)
{
    (void)options;
    (void)out;
    (void)target;
    return LK_OK;
}

static int64_t metric_numbers(const void *options, lk_tensor_type out)
{
    (void)options;
    (void)out;
    return 1;
}

static lk_status metric_add(const void *options, const lk_tensor *y, const lk_tensor *target,
                            double *number)
{
    (void)options;
    (void)target;
    number[0] += (double)lk_tensor_shape(y).dim[0];
    return LK_OK;
}

static double metric_value(const void *options, lk_tensor_type out, const double *number)
{
    (void)options;
    (void)out;
    return number[0];
}

static lk_status metric_json(const void *options, lk_tensor_type out, const double *number,
                             lk_arena *arena, const char **text)
{
    (void)options;
    (void)out;
    (void)number;
    (void)arena;
    LK_CHECK(!fails, LK_ENOTSUP, "planted in a metric");
    *text = "[]";
    return LK_OK;
}

static const lk_metric seen = {.descriptor = {.name = "seen", .summary = "the number of samples"},
                               .check = metric_check,
                               .numbers = metric_numbers,
                               .add = metric_add,
                               .value = metric_value,
                               .json = metric_json};

static void trainer_make(small_trainer *s, lk_config *metric, lk_comm *comm)
{
    *metric = (lk_config){.descriptor = &seen.descriptor};
    small_begin(s, comm);
    ASSERT_OK(lk_model_add(s->model, "linear", "units=2"));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s->arena,
                              &s->options.loss));
    s->options.metrics = (lk_configs){1, metric};
    small_build(s);
}

RANKS_TEST(metrics_that_fail_on_any_rank_can_be_asked_for_again)
{
    small_trainer s;
    lk_config metric;
    lk_eval score;
    trainer_make(&s, &metric, comm);
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    for (int who = 0; who <= 1; who++) { /* the last rank, then all */
        fails = who == 1 || lk_comm_rank(comm) == lk_comm_size(comm) - 1;
        ASSERT_FAILS(lk_trainer_train_metrics(s.trainer, &score), LK_ENOTSUP,
                     "planted in a metric");
        ASSERT_FAILS(lk_trainer_evaluate(s.trainer, s.loader, &score), LK_ENOTSUP,
                     "planted in a metric");
    }
    fails = false;
    ASSERT_OK(lk_trainer_train_metrics(s.trainer, &score));
    ASSERT_TRUE(score.samples == 24 && score.value[0] == 24);
    ASSERT_OK(lk_trainer_evaluate(s.trainer, s.loader, &score));
    ASSERT_TRUE(score.samples == SMALL_SAMPLES && score.value[0] == SMALL_SAMPLES);
    small_free(&s);
}

RANKS_TEST(no_steps_have_no_loss)
{
    small_trainer s;
    lk_config metric;
    lk_eval score;
    trainer_make(&s, &metric, comm);
    ASSERT_OK(lk_trainer_train_metrics(s.trainer, &score));
    ASSERT_TRUE(score.samples == 0 && score.value[0] == 0 && isnan(score.loss));
    small_free(&s);
}
