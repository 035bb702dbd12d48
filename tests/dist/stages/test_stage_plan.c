/* Plans of models that are cut into stages: what a step was planned to send is what it sends, rank by rank; the
 * memory that it takes, and how much of it the schedule decides; and that all ranks plan the same lags. */
#include "job_memory.h"
#include "planned_calls.h"
#include "trainers.h"

#include <lockstep/extra/trainer_plan.h>
#include <lockstep/parallel.h>

#include <stdio.h>
#include <string.h>

/* ---- what is sent ---- */

/* Statistics, a norm over all parameters, and a weight that the first and the last stage share. */
static const char network[] =
    "data: {type: glyphs, count: 64, test_count: 0, shape: [8, 8, 1], batch: 32, shards: 8}\n"
    "model:\n"
    "  - {type: conv, filters: 4, kernel: 3, padding: 1}\n"
    "  - batch_norm\n"
    "  - relu\n"
    "  - {type: residual, layers: [{type: conv, filters: 4, kernel: 3, padding: 1}, relu]}\n"
    "  - flatten\n"
    "  - {type: linear, units: 16, name: shared}\n"
    "  - relu\n"
    "  - {type: linear, units: 16}\n"
    "  - {type: linear, units: 256, transpose: true, tie: shared.weight}\n"
    "  - {type: linear, units: 10}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: adam, rate: 0.01, clip_norm: 1}\n";

static void expect_sent(lk_comm *comm, const char *const *settings)
{
    char lone[96];
    lk_experiment *e = NULL, *e_alone = NULL;
    lk_job *job = NULL, *alone = NULL;
    snprintf(lone, sizeof lone, "parallel={%s", strstr(settings[0], "schedule"));
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    ASSERT_OK(
        job_of(network, NULL, (const char *[MAX_SETTINGS]){lone, settings[1]}, &e_alone, &alone));
    planned_expect(comm, lk_job_trainer(job), settings[0]);
    planned_alike(comm, lk_job_trainer(job), lk_job_trainer(alone));
    lk_job_free(alone);
    job_end(job, e_alone);
    lk_experiment_free(e);
}

RANKS_TEST(a_step_of_stages_sends_what_was_planned)
{
    static const char *const options[] = {"schedule: 1f1b", "schedule: gpipe, micro_batch: 2",
                                          "schedule: zb1p, lag: full",
                                          "schedule: zb1p, recompute: true"};
    int size = lk_comm_size(comm);
    for (int stages = 2; stages <= size; stages++)
        for (size_t i = 0; size % stages == 0 && i < sizeof options / sizeof options[0]; i++) {
            char layout[96];
            snprintf(layout, sizeof layout, "parallel={stages: %d, %s}", stages, options[i]);
            expect_sent(comm, (const char *[MAX_SETTINGS]){layout, i == 1 ? "dtype=f64" : NULL});
            if (i == 0) /* a set below a batch: 4 of its 8 shards, one of them of a sample */
                expect_sent(comm, (const char *[MAX_SETTINGS]){layout, "data.count=13"});
        }
}

/* ---- lags ---- */

/* Whatever a rank has, it plans for all stages, of which each has the lag of the formula: here of layers that give
 * as much as they take. */
RANKS_TEST(lags_are_those_of_the_bytes)
{
    static const struct {
        const char *model, *recompute;
        int64_t lag[4];
    } each[] = {
        {"model=[flatten, {type: linear, units: 64}, {type: linear, units: 64, stage: true}, "
         "{type: linear, units: 64, stage: true}, {type: linear, units: 64, stage: true}]",
         NULL, /* F is what came in and what goes out, W the same */
         {0, 1, 2, 3}},
        /* F is what came in, W twice that */
        {"model=[flatten, {type: linear, units: 64}, {type: linear, units: 64, stage: true}, "
         "{type: linear, units: 64, stage: true}, {type: linear, units: 64, stage: true}]",
         "parallel.recompute=true",
         {0, 0, 1, 1}},
        /* three layers: F is 4, W 6 */
        {"model=[flatten, {type: linear, units: 64, stage: true}, {type: linear, units: 64, stage: "
         "true}, {type: linear, units: 64, stage: true}, {type: linear, units: 64}, {type: linear, "
         "units: 64}]",
         NULL,
         {0, 1, 2, 2}}};
    if (lk_comm_size(comm) != 1)
        return;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        for (int rank = 0; rank < 8; rank++) {
            lk_experiment *e = NULL;
            lk_job *job = NULL;
            lk_plan *p = NULL;
            lk_mesh_shape shape = {.data = 2, .stages = 4};
            ASSERT_OK(job_of(network, NULL,
                             (const char *[MAX_SETTINGS]){each[i].model, "parallel.schedule=zb1p",
                                                          each[i].recompute},
                             &e, &job));
            ASSERT_OK(lk_trainer_plan_of(lk_job_trainer(job), &shape, 8, rank, &p));
            for (int s = 0; s < 4; s++)
                ASSERT_EQ(lk_pipeline_lag(&p->pipeline, s), each[i].lag[s]);
            lk_plan_free(p);
            job_end(job, e);
        }
}

/* ---- memory ---- */

/* Layers of equal size, whose values are most of what a rank holds. */
static const char wide[] =
    "data: {type: glyphs, count: 256, test_count: 64, shape: [16, 16, 1], batch: 256, shards: 16}\n"
    "model:\n"
    "  - flatten\n"
    "  - {type: linear, units: 256}\n"
    "  - tanh\n"
    "  - {type: linear, units: 256, stage: true}\n"
    "  - tanh\n"
    "  - {type: linear, units: 256, stage: true}\n"
    "  - tanh\n"
    "  - {type: linear, units: 256, stage: true}\n"
    "  - tanh\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: sgd, rate: 0.01, momentum: 0.9}\n";

static lk_plan *plan_of(const char *const *settings, int ranks, int rank)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    ASSERT_OK(job_of(wide, NULL, settings, &e, &job));
    ASSERT_OK(lk_job_plan(job, &(lk_mesh_shape){.data = 1, .stages = ranks}, ranks, rank, &plan));
    job_end(job, e);
    return plan;
}

/* What all ranks are planned to hold, or with rank >= 0 one of them. */
static int64_t memory_planned(const char *const *settings, int ranks, int rank)
{
    int64_t sum = 0;
    for (int r = 0; r < ranks; r++) {
        if (rank >= 0 && r != rank)
            continue;
        lk_plan *plan = plan_of(settings, ranks, r);
        sum += lk_plan_memory_sum(&plan->memory);
        lk_plan_free(plan);
    }
    return sum;
}

RANKS_TEST(stages_take_what_was_planned)
{
    static const char *const options[] = {"schedule: 1f1b", "schedule: gpipe",
                                          "schedule: zb1p, lag: full", "schedule: zb1p",
                                          "schedule: 1f1b, recompute: true"};
    int size = lk_comm_size(comm), rank = lk_comm_rank(comm);
    bool alone = strcmp(lk_comm_transport(comm), "mpi") == 0;
    for (size_t i = 0; size >= 2 && size <= 4 && i < sizeof options / sizeof options[0]; i++) {
        char layout[96], lone[96];
        snprintf(layout, sizeof layout, "parallel={stages: %d, %s}", size, options[i]);
        snprintf(lone, sizeof lone, "parallel={%s}", options[i]);
        const char *settings[MAX_SETTINGS] = {layout}, *alike[MAX_SETTINGS] = {lone};
        if (i == 0) /* once: what threads keep for their kernels */
            (void)job_memory_counted(comm, wide, settings, alone);
        int64_t counted = job_memory_counted(comm, wide, settings, alone);
        if (!alone && rank > 0)
            continue;
        int64_t of = memory_planned(alike, size, alone ? rank : -1);
        double ratio = (double)counted / (double)of;
        if (ratio < 0.7 || ratio > 1.15)
            TEST_FAIL("%s, rank %d of %d: %lld bytes, %.3f of what was planned", layout, rank, size,
                      (long long)counted, ratio);
    }
}

/* Parameters, optimizer and gradients of all stages are those of one rank; slabs of gradients are one more for
 * each doubling of the micro-batches. */
RANKS_TEST(stages_share_what_one_rank_holds)
{
    const char *settings[MAX_SETTINGS] = {"parallel.micro_batch=1"};
    if (lk_comm_size(comm) != 1)
        return;
    lk_plan *one = plan_of(settings, 1, 0);
    for (int stages = 2; stages <= 4; stages++) {
        lk_plan_memory sum = {.parameters = 0};
        int64_t slabs = 0;
        for (int r = 0; r < stages; r++) {
            lk_plan *p = plan_of(settings, stages, r);
            sum.parameters += p->memory.parameters;
            sum.optimizer += p->memory.optimizer;
            sum.gradients += p->memory.gradients;
            for (slabs = 0; p->microbatches + 1 >= INT64_C(2) << slabs;)
                slabs++;
            ASSERT_EQ(p->microbatches, 16);
            lk_plan_free(p);
        }
        ASSERT_EQ(sum.parameters, one->memory.parameters);
        ASSERT_EQ(sum.optimizer, one->memory.optimizer);
        ASSERT_EQ(slabs, 4);
        /* Each has a loss of its own beside the gradients, some lines at most. */
        ASSERT_TRUE(sum.gradients >= slabs * one->memory.gradients);
        ASSERT_TRUE(sum.gradients <= slabs * (one->memory.gradients + 4096));
    }
    lk_plan_free(one);
}

/* What micro-batches under way hold, by the plan, whose values are counted: of 1f1b p - s of them on stage s, of
 * gpipe all.  What one holds comes from two schedules that differ in nothing else. */
RANKS_TEST(a_stage_holds_its_micro_batches)
{
    enum { STAGES = 4, ALL = 16 };
    if (lk_comm_size(comm) != 1)
        return;
    for (int s = 0; s < STAGES; s++) {
        lk_plan *all = plan_of(
            (const char *[MAX_SETTINGS]){"parallel.schedule=gpipe", "parallel.micro_batch=1"},
            STAGES, s);
        lk_plan *few = plan_of(
            (const char *[MAX_SETTINGS]){"parallel.schedule=1f1b", "parallel.micro_batch=1"},
            STAGES, s);
        /* Evaluations have two tapes, also where a step needs one. */
        int64_t under_way = lk_pipeline_tapes(&few->pipeline, s), one = all->memory.values / ALL;
        ASSERT_EQ(under_way, STAGES - s);
        ASSERT_EQ(lk_pipeline_tapes(&all->pipeline, s), ALL);
        /* x, both layers and dy of 16 samples of 256 numbers at least. */
        ASSERT_TRUE(one >= 4 * 16 * 256 * (int64_t)sizeof(float));
        ASSERT_TRUE(few->memory.values <= (under_way + 1) * one + one / 2);
        lk_plan_free(all);
        lk_plan_free(few);
    }
}

/* Stages of twelve values as large as what comes in. */
#define CONV " {type: conv, filters: 8, kernel: 3, padding: 1}, softplus,"
static const char deep[] = "model=[" CONV CONV CONV CONV CONV
    CONV " {type: conv, filters: 8, kernel: 3, padding: 1, stage: true}, softplus," CONV CONV CONV
        CONV CONV " flatten, {type: linear, units: 10}]";

/* A stage that computes again holds of all micro-batches but one what comes in and goes out. */
RANKS_TEST(a_stage_that_computes_again_holds_one)
{
    static const char *const options[] = {
        "parallel={schedule: gpipe, micro_batch: 1}",
        "parallel={schedule: gpipe, micro_batch: 1, recompute: true}",
        "parallel={schedule: 1f1b, micro_batch: 1, recompute: true}"};
    int64_t values[3];
    if (lk_comm_size(comm) != 1)
        return;
    for (int i = 0; i < 3; i++) {
        lk_plan *p = plan_of((const char *[MAX_SETTINGS]){deep, options[i]}, 2, 0);
        values[i] = p->memory.values;
        lk_plan_free(p);
    }
    if (2 * values[1] > values[0] || 2 * values[2] > values[1])
        TEST_FAIL("%lld bytes, computing again %lld, with two under way %lld", (long long)values[0],
                  (long long)values[1], (long long)values[2]);
}
