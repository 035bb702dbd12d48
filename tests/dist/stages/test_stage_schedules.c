/* Every schedule in earnest: as many stages as there are ranks, 1 to 16 micro-batches, each a sample, whose values
 * are more than a transport takes along before the other end asks for them.  All come to their end, with the
 * state of one rank.  (That every schedule passes its check: tests/unit/parallel/test_pipeline.c.) */
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/extra/trainer_plan.h>

#include <stdio.h>

enum { MOST_MICROBATCHES = 16, LARGE = 8192 /* bytes that go with a header */ };

/* Layers of few parameters on samples of 16 KiB; each gives as much as it takes but for the last ones. */
#define LAYER "  - {type: conv, filters: 1, kernel: 1, stage: true}\n"
static const char network[] =
    "data: {type: glyphs, count: 16, test_count: 0, shape: [64, 64, 1], batch: 16, shards: 16}\n"
    "model:\n"
    "  - {type: conv, filters: 1, kernel: 3, padding: 1}\n" LAYER LAYER LAYER LAYER LAYER LAYER
        LAYER "  - {type: maxpool, size: 16}\n"
    "  - flatten\n"
    "  - {type: linear, units: 10}\n"
    "loss: softmax_cross_entropy\n"
    "optimizer: {type: sgd, rate: 0.1}\n";

/* The state behind two steps, by which all buffers have been used again. */
static uint64_t state_behind(lk_comm *comm, const char *layout, int64_t microbatches)
{
    char batch[48], shards[48];
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    snprintf(batch, sizeof batch, "data.batch=%lld", (long long)microbatches);
    snprintf(shards, sizeof shards, "data.shards=%lld", (long long)microbatches);
    ASSERT_OK(job_of(network, comm, (const char *[MAX_SETTINGS]){layout, batch, shards}, &e, &job));
    const lk_plan *p = lk_trainer_plan(lk_job_trainer(job));
    if (p->stages > 1)
        ASSERT_EQ(p->microbatches, microbatches);
    for (int64_t i = 0; i < p->n_transfers; i++)
        if (p->transfer[i].kind == LK_SENT)
            ASSERT_TRUE(p->transfer[i].bytes > p->transfer[i].calls * LARGE);
    for (int i = 0; i < 2; i++)
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    uint64_t state = state_of(lk_job_trainer(job));
    job_end(job, e);
    return state;
}

RANKS_TEST(every_schedule_comes_to_its_end)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb1p", "zb1p, lag: full"};
    int stages = lk_comm_size(comm), kinds = (int)(sizeof schedules / sizeof schedules[0]);
    bool is_first = lk_comm_rank(comm) == 0;
    for (int64_t m = 1; m <= MOST_MICROBATCHES; m++) {
        uint64_t one = is_first ? state_behind(NULL, "parallel={data: 1}", m) : 0;
        for (int k = 0; k < kinds; k++) {
            char layout[96];
            if (ranks_brief() && (m + k) % 4 > 0)
                continue;
            snprintf(layout, sizeof layout, "parallel={stages: %d, micro_batch: 1, schedule: %s}",
                     stages, schedules[k]);
            uint64_t state = state_behind(comm, layout, m);
            if (is_first && state != one)
                TEST_FAIL("%s, %lld micro-batches: another state than one rank", layout,
                          (long long)m);
        }
    }
}
