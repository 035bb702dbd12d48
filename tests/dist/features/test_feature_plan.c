/* Plans of models whose features are cut over ranks: the kinds of their nodes; what a step was planned to send
 * is what it sends, rank by rank; the memory that it takes; and that ranks together hold what one would. */
#include "job_memory.h"
#include "planned_calls.h"
#include "trainers.h"

#include <lockstep/parallel.h>

#include <stdio.h>
#include <string.h>

/* ---- what is sent ---- */

/* All ways in and out of cut layers, with and without tiles, and a norm over all parameters. */
static const char network[] =
    "data: {type: glyphs, count: 64, test_count: 0, shape: [8, 8, 1], batch: 16, shards: 4}\n"
    "model:\n"
    "  - {type: conv, filters: 12, kernel: 3, padding: 1}\n"
    "  - batch_norm\n"
    "  - relu\n"
    "  - {type: residual, layers: [{type: conv, filters: 12, kernel: 3, padding: 1}, relu]}\n"
    "  - {type: conv, filters: 24, kernel: 1, groups: 4}\n"
    "  - {type: residual, layers: [layer_norm, {type: linear, units: 24}], shortcut: [{type: conv, "
    "filters: 24, kernel: 1}]}\n"
    "  - {type: layer_norm}\n"
    "  - {type: maxpool, size: 2}\n"
    "  - flatten\n"
    "  - {type: linear, units: 40}\n"
    "  - {type: dropout, rate: 0.25}\n"
    "  - {type: linear, units: 20, cut: in}\n"
    "  - {type: linear, units: 16, cut: in}\n"
    "  - {type: linear, units: 30}\n"
    "  - {type: linear, units: 10}\n"
    "loss: softmax_cross_entropy\n"
    "metrics: [accuracy]\n"
    "optimizer: {type: adam, rate: 0.01, clip_norm: 1}\n"
    "pieces: {blocks: 4, least_block: 2}\n";

/* Recurrent layers, which send between each two times. */
static const char recurrent[] =
    "model=[{type: reshape, shape: [8, 8]}, {type: lstm, units: 12, output: all}, {type: gru, "
    "units: 8, output: all}, {type: rnn, units: 10}, {type: linear, units: 10}]";

/* A weight that two stages share, cut by its rows. */
static const char shared[] =
    "model=[flatten, {type: linear, units: 24, name: first}, {type: linear, units: 64, transpose: "
    "true, tie: first.weight}, {type: linear, units: 30}, {type: linear, units: 10}]";

/* The first setting is the layout. */
static void expect_sent(lk_comm *comm, const char *const *settings)
{
    const char *lone[MAX_SETTINGS] = {settings[1], settings[2], settings[3]};
    lk_experiment *e = NULL, *e_alone = NULL;
    lk_job *job = NULL, *alone = NULL;
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    ASSERT_OK(job_of(network, NULL, lone, &e_alone, &alone));
    planned_expect(comm, lk_job_trainer(job), settings[0]);
    planned_alike(comm, lk_job_trainer(job), lk_job_trainer(alone));
    lk_job_free(alone);
    job_end(job, e_alone);
    lk_experiment_free(e);
}

/* ---- nodes ---- */

static void expect_kind(const lk_plan *plan, const char *kind, int64_t wanted)
{
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_nodes; i++)
        n += strcmp(plan->node[i].kind, kind) == 0;
    if (n != wanted)
        TEST_FAIL("%lld nodes of the kind %s instead of %lld", (long long)n, kind,
                  (long long)wanted);
}

/* A layer whose inputs are cut is a product, a join and a bias for the check of tags. */
RANKS_TEST(a_plan_says_of_which_kind_each_node_is)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    if (lk_comm_size(comm) > 1)
        return;
    ASSERT_OK(job_of(network, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    ASSERT_OK(lk_trainer_plan_of(lk_job_trainer(job), &(lk_mesh_shape){.data = 1, .features = 2}, 2,
                                 0, &plan));
    expect_kind(plan, "linear_in", 0);
    expect_kind(plan, "linear_in_partial", 2);
    expect_kind(plan, "join", 2);
    expect_kind(plan, "bias", 2);
    expect_kind(plan, "take", 1);
    expect_kind(plan, "batch_norm", 1);
    expect_kind(plan, "dropout", 1);
    expect_kind(plan, "pool", 1);
    expect_kind(plan, "add", 2);
    expect_kind(plan, "cross_entropy", 1);
    lk_plan_free(plan);
    job_end(job, e);
}

RANKS_TEST(a_step_of_features_sends_what_was_planned)
{
    int size = lk_comm_size(comm);
    for (int features = 2; features <= 4 && features <= size; features++) {
        char layout[96];
        if (size % features != 0)
            continue;
        snprintf(layout, sizeof layout, "parallel={features: %d}", features);
        expect_sent(comm, (const char *[MAX_SETTINGS]){layout});
        expect_sent(comm, (const char *[MAX_SETTINGS]){layout, "dtype=f64"});
        expect_sent(comm, (const char *[MAX_SETTINGS]){layout, "train.recompute=3"});
        expect_sent(comm, (const char *[MAX_SETTINGS]){layout, "train.recompute=12"});
        expect_sent(comm, (const char *[MAX_SETTINGS]){layout, recurrent});
        expect_sent(comm, (const char *[MAX_SETTINGS]){layout, recurrent, "metrics=[confusion]"});
        expect_sent(comm, (const char *[MAX_SETTINGS]){
                              layout, recurrent, "metrics=[top_k, auc, accuracy]", "dtype=f64"});
        snprintf(layout, sizeof layout, "parallel={features: %d, stages: %d}", features,
                 size / features);
        if (size > features) {
            expect_sent(comm, (const char *[MAX_SETTINGS]){layout});
            expect_sent(comm, (const char *[MAX_SETTINGS]){layout, shared});
            expect_sent(comm, (const char *[MAX_SETTINGS]){layout, "train.recompute=8"});
        }
        if (size > features)
            expect_sent(comm, (const char *[MAX_SETTINGS]){layout, "parallel.recompute=true"});
        snprintf(layout, sizeof layout, "parallel={features: %d, spatial: %dx1}", features,
                 size / features);
        for (int i = 0; size == 2 * features && i < 3; i++)
            expect_sent(comm,
                        (const char *[MAX_SETTINGS]){
                            layout, "pieces={blocks: 4, least_block: 2, tiles: 2x2, least_tile: 1}",
                            (const char *[]){NULL, "train.recompute=4", "train.recompute=20"}[i]});
    }
}

/* A rule may take fewer sums over all parameters than it might, each of them as planned. */
RANKS_TEST(sums_of_lbfgs_are_of_the_size_that_is_planned)
{
    static const char lbfgs[] = "optimizer={type: lbfgs, history: 2}";
    static const char *const layout[] = {"parallel={features: 2}",
                                         "parallel={features: 2, stages: 2}"};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    int size = lk_comm_size(comm);
    if (size != 2 && size != 4)
        return;
    ASSERT_OK(
        job_of(network, comm, (const char *[MAX_SETTINGS]){layout[size / 4], lbfgs}, &e, &job));
    lk_trainer *t = lk_job_trainer(job);
    const lk_plan *p = lk_trainer_plan(t);
    int64_t taken = 0;
    ASSERT_EQ(p->spec.rule_sums, 9);
    ASSERT_EQ(p->sum_calls, size / 2);
    for (int step = 0; step < 5; step++) {
        int64_t before, after;
        planned want = planned_of(p);
        int64_t bytes = calls_so_far(lk_trainer_mesh(t), &before).all;
        ASSERT_OK(lk_trainer_step(t, NULL));
        bytes = calls_so_far(lk_trainer_mesh(t), &after).all - bytes;
        int64_t more = after - before - want.calls;
        taken = more / p->sum_calls > taken ? more / p->sum_calls : taken;
        ASSERT_EQ(more % p->sum_calls, 0);
        ASSERT_EQ(bytes - want.joined - want.gathered, more / p->sum_calls * p->sum_bytes);
    }
    ASSERT_TRUE(taken > 1 && taken <= p->spec.rule_sums);
    lk_job_free(job);
    lk_experiment_free(e);
}

/* ---- memory ---- */

/* Wide layers, whose parameters are most of what a rank holds. */
static const char wide[] =
    "data: {type: glyphs, count: 128, test_count: 64, shape: [16, 16, 1], batch: 128, shards: 8}\n"
    "model:\n"
    "  - flatten\n"
    "  - {type: linear, units: 512}\n"
    "  - relu\n"
    "  - {type: linear, units: 512}\n"
    "  - relu\n"
    "  - {type: linear, units: 256, cut: in}\n"
    "  - relu\n"
    "  - {type: linear, units: 64}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01}\n"
    "pieces: {blocks: 4}\n";

static lk_plan *plan_of(int ranks, int rank)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    ASSERT_OK(job_of(wide, NULL, (const char *[MAX_SETTINGS]){NULL}, &e, &job));
    ASSERT_OK(lk_job_plan(job, &(lk_mesh_shape){.data = 1, .features = ranks}, ranks, rank, &plan));
    job_end(job, e);
    return plan;
}

RANKS_TEST(features_take_what_was_planned)
{
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    bool alone = strcmp(lk_comm_transport(comm), "mpi") == 0;
    char layout[96];
    if (size < 2 || size > 4)
        return;
    snprintf(layout, sizeof layout, "parallel={features: %d}", size);
    const char *settings[MAX_SETTINGS] = {layout};
    (void)job_memory_counted(comm, wide, settings,
                             alone); /* once: what threads keep for their kernels */
    int64_t counted = job_memory_counted(comm, wide, settings, alone), of = 0;
    for (int r = 0; r < size && (alone || rank == 0); r++) {
        if (alone && r != rank)
            continue;
        lk_plan *plan = plan_of(size, r);
        of += lk_plan_memory_sum(&plan->memory);
        lk_plan_free(plan);
    }
    double ratio = of > 0 ? (double)counted / (double)of : 1;
    if (ratio < 0.7 || ratio > 1.15)
        TEST_FAIL("%s, rank %d of %d: %lld bytes, %.3f of what was planned", layout, rank, size,
                  (long long)counted, ratio);
}

/* Parameters, optimizer and gradients of all ranks are those of one, but for the bias of the layer whose inputs
 * are cut, which all have. */
RANKS_TEST(ranks_share_what_one_rank_holds)
{
    const int64_t bias = 256 * 4;
    if (lk_comm_size(comm) != 1)
        return;
    lk_plan *one = plan_of(1, 0);
    for (int ranks = 2; ranks <= 4; ranks++) {
        lk_plan_memory sum = {.parameters = 0};
        for (int r = 0; r < ranks; r++) {
            lk_plan *p = plan_of(ranks, r);
            sum.parameters += p->memory.parameters;
            sum.optimizer += p->memory.optimizer;
            sum.gradients += p->memory.gradients;
            lk_plan_free(p);
        }
        ASSERT_EQ(sum.parameters, one->memory.parameters + (ranks - 1) * bias);
        ASSERT_EQ(sum.optimizer, one->memory.optimizer + 2 * (ranks - 1) * bias);
        ASSERT_EQ(sum.gradients, one->memory.gradients + (ranks - 1) * (bias + LK_ALIGN));
    }
    lk_plan_free(one);
}
