/* What jobs of tests take, and were planned to. */
#ifndef LK_TEST_JOB_MEMORY_H
#define LK_TEST_JOB_MEMORY_H

#include "harness.h"

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

#endif /* LK_TEST_JOB_MEMORY_H */
