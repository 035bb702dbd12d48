/* lk_job from inside: an experiment with its data, model and trainer, on each rank.  Made by
 * lk_job_new(), run by lk_job_run() (run.c), on one thread.
 */
#ifndef LK_TRAIN_JOB_H
#define LK_TRAIN_JOB_H

#include <lockstep/extra/alloc.h>
#include <lockstep/train.h>

struct lk_job {
    lk_job_spec spec;
    const lk_experiment *experiment;
    lk_comm *comm; /* NULL: this rank is alone */
    bool is_given; /* the program brings the sets */
    lk_dataset *set[LK_N_SPLITS];
    lk_loader *loader[LK_N_SPLITS];
    lk_model *model;             /* NULL: a chain is trained */
    lk_parallel_model *parallel; /* of the model; NULL: it has no devices */
    lk_trainer *trainer;
};

/** Fail on all ranks unless they have the same experiment and the same sets.  Collective over job->comm. */
lk_status lk__job_compare(const lk_job *job) LK_NODISCARD;

#endif /* LK_TRAIN_JOB_H */
