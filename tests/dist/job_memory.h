/* What jobs of tests take, and were planned to. */
#ifndef LK_TEST_JOB_MEMORY_H
#define LK_TEST_JOB_MEMORY_H

#include "harness.h"
#include "trainers.h"

#include <lockstep/extra/plan.h>
#include <lockstep/train.h>

/* The sets that a job holds in memory. */
static inline int64_t sets_bytes(const lk_job *job)
{
    int64_t bytes = 0;
    for (int split = 0; split < LK_N_SPLITS; split++) {
        lk_loader *loader = lk_job_loader(job, (lk_split)split);
        if (!loader)
            continue;
        const lk_dataset_info *info = lk_dataset_info_of(lk_loader_dataset(loader));
        for (int f = 0; f < info->n_fields; f++) {
            int64_t one = (int64_t)lk_dtype_size(info->field[f].dtype);
            for (int i = 0; i < info->field[f].shape.ndim; i++)
                one *= info->field[f].shape.dim[i];
            bytes += one * info->count;
        }
    }
    return bytes;
}

/* What some steps and an evaluation leave behind; all ranks. */
static inline void job_use(lk_job *job, int steps)
{
    const char *name;
    lk_eval score;
    for (int i = 0; i < steps; i++)
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    ASSERT_OK(lk_trainer_evaluate(lk_job_trainer(job), lk_job_evaluation(job, &name), &score));
}

/* What the ranks of this process hold behind steps and an evaluation of a network, without their sets: tapes
 * keep what they had at most. */
static inline int64_t job_memory_counted(lk_comm *comm, const char *network,
                                         const char *const *settings, bool alone)
{
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    ASSERT_OK(lk_barrier(comm, "begin"));
    int64_t before = lk_alloc_stats_now().live_bytes;
    ASSERT_OK(lk_barrier(comm, "known"));
    ASSERT_OK(job_of(network, comm, settings, &e, &job));
    job_use(job, 3);
    int64_t sets = sets_bytes(job);
    if (!alone)
        ASSERT_OK(lk_allreduce(comm, NULL, &sets, 1, LK_I64, LK_REDUCE_SUM, "sets"));
    ASSERT_OK(lk_barrier(comm, "trained"));
    int64_t now = lk_alloc_stats_now().live_bytes;
    ASSERT_OK(lk_barrier(comm, "counted"));
    job_end(job, e);
    ASSERT_OK(lk_barrier(comm, "freed")); /* what is planned next is counted, too */
    return now - before - sets;
}

#endif /* LK_TEST_JOB_MEMORY_H */
