/* What jobs of tests take, and were planned to. */
#ifndef LK_TEST_JOB_MEMORY_H
#define LK_TEST_JOB_MEMORY_H

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

/* What a plan comes to. */
static inline int64_t memory_sum(const lk_plan_memory *m)
{
    return m->parameters + m->optimizer + m->gradients + m->state + m->samples + m->exchange +
           m->values + m->filters;
}

#endif /* LK_TEST_JOB_MEMORY_H */
