/* Training on ranks: state, loss and scores have the bits of one rank, whoever updates, and whether
 * gradients travel during backward or after it; failures are those of all. */
#include "comm/comm.h"
#include "parallel/groups_internal.h"
#include "rank_folders.h"
#include "reuse_layer.h"
#include "train/trainer.h"
#include "trainers.h"

#include <math.h>
#include <stdlib.h>

/* 8 shards; an epoch is four whole batches and one of 13 samples, which have 4 pieces. */
static const char network[] =
    "data: {type: glyphs, count: 141, test_count: 70, shape: [12, 12, 1], batch: 32, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 4, kernel: 3, stride: 2}\n"
    "  - batch_norm\n"
    "  - relu\n"
    "  - {type: dropout, rate: 0.2}\n"
    "  - flatten\n"
    "  - {type: linear, units: 10}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy, confusion]\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "train: {epochs: 3}\n";

/* What rank 0 gets alone, all get together. */
static void expect_same(lk_comm *comm, const char *const *settings)
{
    outcome alone = {.state = 0}, together = train_steps(network, comm, settings);
    if (lk_comm_rank(comm) == 0)
        alone = train_steps(network, NULL, settings);
    ASSERT_OK(lk_bcast(comm, &alone, (int64_t)sizeof alone, LK_U8, 0, "alone"));
    ASSERT_EQ(memcmp(&alone, &together, sizeof alone), 0);
}

RANKS_TEST(any_ranks_have_the_bits_of_one)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){"parallel.update=each"});
    expect_same(comm, (const char *[MAX_SETTINGS]){"parallel.update=shared"});
    if (ranks_brief())
        return;
    expect_same(comm, (const char *[MAX_SETTINGS]){"dtype=f64"});
    expect_same(comm, (const char *[MAX_SETTINGS]){"loss=logistic_cross_entropy",
                                                   "data.one_hot=true", "metrics=[accuracy]"});
}

RANKS_TEST(gradients_that_travel_early_have_the_same_bits)
{
    expect_same(comm,
                (const char *[MAX_SETTINGS]){"parallel.overlap=yes", "parallel.bucket_mib=0.001"});
    expect_same(comm,
                (const char *[MAX_SETTINGS]){"parallel.overlap=yes", "parallel.bucket_mib=0.001",
                                             "parallel.update=shared"});
}

/* All buckets have started when backward ends, on ranks with one block each. */
RANKS_TEST(gradients_do_travel_during_backward)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    int size = lk_comm_size(comm);
    if (size != 2 && size != 4 && size != 8)
        return;
    ASSERT_OK(
        job_of(network, comm,
               (const char *[MAX_SETTINGS]){"parallel.overlap=yes", "parallel.bucket_mib=0.0001"},
               &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    lk_batch batch = {.size = lk_loader_batch_size(t->spec.train, 0)};
    int64_t piece = lk_loader_shard_size(t->spec.train);
    lk_range range = lk__groups_begin(t->groups, batch.size / piece, batch.size);
    ASSERT_OK(
        lk_loader_read_batch(t->spec.train, 0, 0, range.first * piece, range.n * piece, &batch));
    lk__groups_overlap_backward(t->groups, t->tape);
    ASSERT_OK(lk__microbatch_pass(t, &batch, lk__groups_accumulator(t->groups, 0),
                                  &(lk_step_seconds){0}));
    ASSERT_TRUE(t->groups->n_buckets > 2);
    ASSERT_EQ(t->groups->n_started, t->groups->n_buckets);
    ASSERT_OK(lk__groups_finish_overlap(t->groups));
    job_end(job, e);
}

/* Collective calls of a step, behind the first two. */
static int64_t calls_of(lk_comm *comm, const char *const *settings, int *buckets)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    ASSERT_OK(lk_trainer_step(t, NULL));
    ASSERT_OK(lk_trainer_step(t, NULL));
    int64_t before = t->mesh->world->n_calls;
    ASSERT_OK(lk_trainer_step(t, NULL));
    int64_t calls = t->mesh->world->n_calls - before;
    *buckets = t->groups->n_buckets;
    job_end(job, e);
    return calls;
}

/* The control vector, and the gradients with the statistics; of a shared copy each joins its share
 * itself, and waits until all have updated theirs. */
RANKS_TEST(a_step_has_two_collective_calls)
{
    int buckets;
    if (lk_comm_size(comm) == 1)
        return;
    ASSERT_EQ(calls_of(comm, (const char *[MAX_SETTINGS]){"parallel.update=each"}, &buckets), 2);
    ASSERT_EQ(calls_of(comm, (const char *[MAX_SETTINGS]){"parallel.update=shared"}, &buckets), 2);
    int64_t calls = calls_of(
        comm, (const char *[MAX_SETTINGS]){"parallel.overlap=yes", "parallel.bucket_mib=0.001"},
        &buckets);
    ASSERT_EQ(calls, buckets + 1);
}

/* What collective call number `n` of a communicator was. */
static void expect_call(const lk_comm *comm, int64_t n, const char *name, lk_dtype dtype,
                        int64_t count)
{
    const lk__label *label = &comm->recent[n % LK_RECENT];
    ASSERT_EQ(label->h.sequence, n);
    ASSERT_TRUE(strcmp(label->name, name) == 0);
    ASSERT_EQ(label->h.dtype, dtype);
    ASSERT_EQ(label->h.count, count);
}

/* Each gradient and statistic travels once, the loss of each subtree, and three votes. */
RANKS_TEST(a_step_joins_each_element_once)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_slab_slice loss;
    int64_t subtrees = 0;
    if (lk_comm_size(comm) == 1)
        return;
    for (int r = 0; r < lk_comm_size(comm); r++)
        subtrees += lk_range_subtrees(8, lk_range_split(8, r, lk_comm_size(comm)), NULL);
    ASSERT_OK(
        job_of(network, comm, (const char *[MAX_SETTINGS]){"parallel.update=each"}, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    ASSERT_OK(lk_trainer_step(t, NULL));
    lk_slab_layout *layout = lk_slab_layout_of(
        lk_accumulator_slab(lk__groups_accumulator(t->groups, 0)));
    ASSERT_OK(lk_slab_layout_slice(layout, lk_slab_layout_slices(layout) - 1, &loss));
    ASSERT_TRUE(strcmp(loss.name, "loss") == 0);
    const lk_comm *world = t->mesh->world;
    expect_call(world, world->n_calls - 1, "votes and loss", LK_I64, 3 + subtrees);
    expect_call(world, world->n_calls, "gradients", LK_F32, loss.offset / 4);
    job_end(job, e);
}

RANKS_TEST(every_optimizer_has_the_same_bits)
{
    static const char *const optimizers[] = {
        "optimizer={type: sgd, rate: 0.05, momentum: 0.9, clip_norm: 0.1}",
        "optimizer={type: rmsprop, rate: 0.001, decay: 0.01}", "optimizer={type: lbfgs, rate: 0.1}",
        "optimizer={type: nadam, rate: 0.01}"};
    size_t n = ranks_brief() ? 1 : sizeof optimizers / sizeof optimizers[0];
    for (size_t i = 0; i < n; i++)
        expect_same(comm, (const char *[MAX_SETTINGS]){optimizers[i]});
}

RANKS_TEST(recurrent_layers_have_the_same_bits)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){
                          "model=[{type: reshape, shape: [12, 12]}, {type: gru, units: 5}, flatten,"
                          " {type: linear, units: 10}]",
                          "parallel.overlap=yes"});
}

/* The state after some steps of a model that goes shard by shard. */
static uint64_t reused_state(lk_comm *comm)
{
    small_trainer s = {0};
    small_begin(&s, comm);
    twice_add(s.model);
    ASSERT_OK(lk_model_add(s.model, "linear", "units=2"));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s.arena,
                              &s.options.loss));
    small_build(&s);
    ASSERT_TRUE(lk_model_has_weight_reuse(s.model));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    uint64_t state = state_of(s.trainer);
    small_free(&s);
    return state;
}

RANKS_TEST(parameters_that_are_used_again_have_the_same_bits)
{
    ASSERT_TRUE(reused_state(comm) == reused_state(NULL));
}

/* An encoder and its transpose, and a layer that is applied twice. */
RANKS_TEST(parameters_that_layers_share_have_the_same_bits)
{
    static const char model[] =
        "model=[flatten, {type: linear, units: 12, name: in}, tanh,"
        " {type: linear, units: 144, transpose: true, tie: in.weight}, tanh,"
        " {type: linear, units: 12, tie: in.weight}, {type: linear, units: 10}]";
    expect_same(comm, (const char *[MAX_SETTINGS]){model, "parallel.update=shared"});
    expect_same(comm, (const char *[MAX_SETTINGS]){model, "parallel.update=each",
                                                   "optimizer.clip_norm=0.1"});
    expect_same(comm, (const char *[MAX_SETTINGS]){model, "parallel.overlap=yes",
                                                   "parallel.bucket_mib=0.001"});
}

/* Parameters that are fewer than cache lines for all ranks, on a set smaller than a batch. */
RANKS_TEST(ranks_with_nothing_to_do_have_the_same_bits)
{
    expect_same(comm, (const char *[MAX_SETTINGS]){
                          "model=[{type: avgpool, size: 12}, flatten, {type: linear, units: 10}]",
                          "data.count=7", "parallel.update=shared"});
}

/* A watcher that stops the run, on the last rank alone, after so many steps. */
struct stopper {
    int steps;
    bool mine;
};

static void count_step(void *arg, const lk_job *job, const lk_step_report *report)
{
    struct stopper *s = arg;
    (void)job;
    (void)report;
    s->steps--;
}

static bool is_enough(void *arg)
{
    const struct stopper *s = arg;
    return s->mine && s->steps <= 0;
}

static lk_run_result run_with(lk_comm *comm, const char *const *settings, struct stopper *stopper)
{
    lk_run_callbacks watcher = {.arg = stopper, .step = count_step, .stop = is_enough};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_run_result end;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    ASSERT_OK(lk_job_run(job, stopper ? &watcher : NULL, &end));
    job_end(job, e);
    return end;
}

/* Stopped on these ranks, in mid-epoch, and gone on with by one, and the other way round. */
RANKS_TEST(a_run_goes_on_on_other_ranks)
{
    char folder[200], output[240];
    lk_run_result whole = {.steps = 0};
    if (lk_comm_rank(comm) == 0)
        whole = run_with(NULL, (const char *[MAX_SETTINGS]){NULL}, NULL);
    ASSERT_OK(lk_bcast(comm, &whole, (int64_t)sizeof whole, LK_U8, 0, "whole"));
    ASSERT_TRUE(!whole.stopped && whole.steps == 15 && whole.resumed == -1);
    for (int first = 0; first < 2; first++) {
        struct stopper stopper = {
            .steps = 6, .mine = first == 0 || lk_comm_rank(comm) == lk_comm_size(comm) - 1};
        folder_share(comm, folder, sizeof folder);
        snprintf(output, sizeof output, "train.output=%s", folder);
        const char *settings[MAX_SETTINGS] = {output, "train.checkpoint.every=2 steps"};
        lk_run_result end = {.stopped = false};
        bool alone = lk_comm_rank(comm) == 0;
        if (first == 1)
            end = run_with(comm, settings, &stopper);
        else if (alone)
            end = run_with(NULL, settings, &stopper);
        int steps = first == 0 || lk_comm_size(comm) == 1 ? 6 : 7; /* others hear it a step later */
        ASSERT_TRUE((!alone && first == 0) || (end.stopped && end.saved && end.steps == steps));
        ASSERT_OK(lk_barrier(comm, "stopped"));
        settings[2] = "train.resume=true";
        if (first == 0)
            end = run_with(comm, settings, NULL);
        else if (alone)
            end = run_with(NULL, settings, NULL);
        if (alone || first == 0) {
            ASSERT_TRUE(end.resumed == steps && end.steps == 15 - steps && !end.stopped);
            ASSERT_TRUE(end.state == whole.state);
            ASSERT_TRUE(end.last.train.loss == whole.last.train.loss);
            ASSERT_TRUE(end.last.test.value[0] == whole.last.test.value[0]);
            ASSERT_TRUE(end.best == whole.best && end.best_epoch == whole.best_epoch);
        }
        folder_remove(comm, folder);
    }
}

/* A request before the first step stops there, with a checkpoint; one in the last step finds a run that
 * is complete, with all its files. */
RANKS_TEST(a_request_at_either_end_is_not_lost)
{
    char folder[200], output[240], weights[240];
    struct stopper stopper = {.steps = 0, .mine = lk_comm_rank(comm) == lk_comm_size(comm) - 1};
    folder_share(comm, folder, sizeof folder);
    snprintf(output, sizeof output, "train.output=%s", folder);
    snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
    const char *settings[MAX_SETTINGS] = {output, "train.resume=true"};
    lk_run_result end = run_with(comm, settings, &stopper);
    ASSERT_TRUE(end.stopped && end.saved && end.steps == 0);
    ASSERT_TRUE(access(weights, F_OK) != 0);
    ASSERT_OK(lk_barrier(comm, "stopped"));
    stopper.steps = 15;
    end = run_with(comm, settings, &stopper);
    ASSERT_TRUE(!end.stopped && end.saved && end.resumed == 0 && end.steps == 15);
    ASSERT_TRUE(access(weights, F_OK) == 0);
    folder_remove(comm, folder);
}

/* What a watcher of the whole run looks at, and spoils on the last rank after the second step. */
struct spoiler {
    const lk_comm *comm;
    bool spoils;
    int epochs;
};

static void spoil(void *arg, const lk_job *job, const lk_step_report *report)
{
    const struct spoiler *s = arg;
    bool last = lk_comm_rank(s->comm) == lk_comm_size(s->comm) - 1;
    lk_slab *params = lk_model_params(lk_trainer_model(lk_job_trainer(job)));
    if (s->spoils && last && report->step == 2)
        ((float *)lk_slab_data(params))[1] += 0.5F;
}

static void look_at_ranks(void *arg, const lk_job *job, const lk_epoch_report *report)
{
    struct spoiler *s = arg;
    int size = lk_comm_size(s->comm);
    (void)job;
    s->epochs++;
    ASSERT_EQ(report->ranks, size);
    ASSERT_TRUE(report->slowest >= (size > 1 ? 0 : -1) && report->slowest < size);
    for (int k = 0; k < size; k++) {
        double own = lk_step_compute_seconds(&report->rank_time[k]);
        ASSERT_TRUE(own > 0 && report->rank_time[k].wait >= 0);
        ASSERT_TRUE(size == 1 ||
                    own <= lk_step_compute_seconds(&report->rank_time[report->slowest]));
    }
}

/* Ranks tell their times at each epoch; one whose state is another is named. */
RANKS_TEST(a_rank_that_computes_wrongly_is_named)
{
    for (int spoils = 0; spoils < 2; spoils++) {
        struct spoiler s = {.comm = comm, .spoils = spoils};
        lk_run_callbacks watcher = {.arg = &s, .step = spoil, .epoch = look_at_ranks};
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        char message[64];
        snprintf(message, sizeof message, "after step 5 rank %d has the state",
                 lk_comm_size(comm) - 1);
        ASSERT_OK(
            job_of(network, comm, (const char *[MAX_SETTINGS]){"parallel.update=each"}, &e, &job));
        if (spoils && lk_comm_size(comm) > 1)
            ASSERT_FAILS(lk_job_run(job, &watcher, NULL), LK_ESTATE, message);
        else
            ASSERT_OK(lk_job_run(job, &watcher, NULL));
        ASSERT_EQ(s.epochs, spoils && lk_comm_size(comm) > 1 ? 0 : 3);
        job_end(job, e);
    }
}

/* One whose state is another when a checkpoint is due ends the run there: that is no matter of the
 * disk, and nothing is saved. */
RANKS_TEST(a_rank_that_computes_wrongly_saves_nothing)
{
    struct spoiler s = {.comm = comm, .spoils = true};
    lk_run_callbacks watcher = {.arg = &s, .step = spoil};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    char folder[200], checkpoints[240], saved[240], message[64];
    if (lk_comm_size(comm) == 1)
        return;
    folder_share(comm, folder, sizeof folder);
    snprintf(checkpoints, sizeof checkpoints, "train.checkpoint.folder=%s", folder);
    snprintf(saved, sizeof saved, "%s/step-000000000004", folder);
    snprintf(message, sizeof message, "after step 4 rank %d has the state", lk_comm_size(comm) - 1);
    ASSERT_OK(job_of(network, comm,
                     (const char *[MAX_SETTINGS]){"parallel.update=each", checkpoints,
                                                  "train.checkpoint.every=4 steps"},
                     &e, &job));
    ASSERT_FAILS(lk_job_run(job, &watcher, NULL), LK_ESTATE, message);
    ASSERT_TRUE(access(saved, F_OK) != 0);
    job_end(job, e);
    folder_remove(comm, folder);
}

/* Fast mode learns, all ranks have the same, and the state says how many they are. */
RANKS_TEST(fast_mode_is_marked)
{
    outcome exact = train_steps(network, comm, (const char *[MAX_SETTINGS]){NULL}),
            fast = train_steps(network, comm, (const char *[MAX_SETTINGS]){"parallel.mode=fast"});
    uint64_t first = fast.state;
    ASSERT_TRUE(fast.state != exact.state);
    ASSERT_TRUE(fabs(fast.loss[0] - exact.loss[0]) < 0.3);
    ASSERT_OK(lk_bcast(comm, &first, 8, LK_U8, 0, "state"));
    ASSERT_TRUE(fast.state == first);
}

/* Of a batch of one sample, all ranks but one have no loss. */
RANKS_TEST(fast_mode_counts_the_samples_that_there_are)
{
    const char *settings[MAX_SETTINGS] = {"model=[flatten, {type: linear, units: 10}]",
                                          "data.count=33", "data.test_count=33"};
    outcome exact = train_steps(network, comm, settings);
    settings[3] = "parallel.mode=fast";
    outcome fast = train_steps(network, comm, settings);
    for (int i = 0; i < STEPS; i++)
        ASSERT_TRUE(fabs(fast.loss[i] - exact.loss[i]) < 1e-3);
    ASSERT_TRUE(fabs(fast.test - exact.test) < 1e-3);
}

RANKS_TEST(too_many_ranks_are_told_what_to_change)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    char message[80];
    int size = lk_comm_size(comm);
    if (size > 1) {
        snprintf(message, sizeof message, "%d ranks for a batch of 1 shard:", size);
        ASSERT_FAILS(job_of(network, comm, (const char *[MAX_SETTINGS]){"data.shards=1"}, &e, &job),
                     LK_EINVAL, message);
        lk_experiment_free(e);
    }
    ASSERT_FAILS(job_of(network, comm, (const char *[MAX_SETTINGS]){"parallel.data=99"}, &e, &job),
                 LK_EINVAL, "parallel.data is 99, but ");
    lk_experiment_free(e);
    if (size % 4 != 0) {
        const char *const cut[MAX_SETTINGS] = {"pieces.tiles=2x2", "parallel.spatial=2x2"};
        ASSERT_FAILS(job_of(network, comm, cut, &e, &job), LK_EINVAL,
                     "parallel.spatial 2x2 has 4 parts");
        lk_experiment_free(e);
    }
    ASSERT_FAILS(
        job_of(network, comm, (const char *[MAX_SETTINGS]){"parallel.stages=99"}, &e, &job),
        LK_EINVAL, "parallel.stages 99 has 99 parts");
    lk_experiment_free(e);
    if (size % 3 != 0) {
        const char *const cut[MAX_SETTINGS] = {"pieces.blocks=3", "parallel.features=3"};
        ASSERT_FAILS(job_of(network, comm, cut, &e, &job), LK_EINVAL,
                     "parallel.features 3 has 3 parts");
        lk_experiment_free(e);
    }
}

/* One rank alone cannot open its data. */
RANKS_TEST(a_failure_of_one_rank_is_that_of_all)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    bool bad = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    const char *data = bad ? "data={type: npy, path: /none}" : NULL;
    lk_status st = job_of(network, comm, (const char *[MAX_SETTINGS]){data}, &e, &job);
    ASSERT_EQ(st, LK_EIO);
    ASSERT_TRUE(strstr(lk_error_message(), "/none"));
    ASSERT_TRUE(bad || strncmp(lk_error_message(), "rank ", 5) == 0);
    lk_experiment_free(e);
}

/* The last rank has images of another noise, or another rate: found before the first step. */
RANKS_TEST(ranks_that_train_something_else_are_noticed)
{
    static const char *const other[] = {"data.noise=0.7", "train.log=3 steps", "optimizer.rate=0.5",
                                        "data.test_count=9", "train.recompute=2"};
    static const char *const words[] = {
        "sample 0 of the training set is another on rank", "has another experiment than rank 0",
        "has another experiment than rank 0", "the test set has 70 samples on rank 0 and 9 on rank",
        "recompute is 0 on rank 0 and 2 on rank"};
    bool odd = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    for (int i = 0; i < 5 && lk_comm_size(comm) > 1; i++) {
        lk_experiment *e = NULL;
        lk_job *job = NULL;
        ASSERT_FAILS(
            job_of(network, comm, (const char *[MAX_SETTINGS]){odd ? other[i] : NULL}, &e, &job),
            LK_ESTATE, words[i]);
        lk_experiment_free(e);
    }
}

/* Sample 17 of 30 has a label that does not exist: the rank that has it says so, and all stop. */
RANKS_TEST(a_step_that_one_rank_cannot_do_is_done_by_none)
{
    small_trainer s;
    small_begin(&s, comm);
    s.y[17] = 5; /* behind the back of the set, which would refuse it */
    ASSERT_OK(lk_model_add(s.model, "linear", "units=2"));
    ASSERT_OK(lk_config_parse(&lk_registry_loss, "softmax_cross_entropy", NULL, s.arena,
                              &s.options.loss));
    small_build(&s);
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    ASSERT_OK(lk_trainer_step(s.trainer, NULL));
    uint64_t before = state_of(s.trainer);
    lk_status st = lk_trainer_step(s.trainer, NULL);
    lk_range mine = lk_range_split(8, lk_comm_rank(comm), lk_comm_size(comm));
    bool bad = mine.first <= 1 && mine.first + mine.n > 1;
    ASSERT_EQ(st, LK_EIO);
    ASSERT_TRUE(bad == (strncmp(lk_error_message(), "rank ", 5) != 0));
    ASSERT_TRUE(state_of(s.trainer) == before);
    small_free(&s);
}

/* A parameter that is not a number stops all ranks in the same step, with the same words. */
RANKS_TEST(what_is_not_finite_stops_all_ranks)
{
    expect_stop_at_nan(network, comm);
}
