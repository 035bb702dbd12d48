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
    lk_experiment *parsed; /* of the program's text; NULL: it brought an experiment */
    lk_comm *comm;         /* NULL: this rank is alone */
    bool is_given;         /* the program brings the sets */
    lk_dataset *set[LK_N_SPLITS];
    lk_loader *loader[LK_N_SPLITS];
    lk_model *model;             /* NULL: a chain is trained */
    lk_parallel_model *parallel; /* of the model; NULL: it has no devices */
    lk_trainer *trainer;
    bool runs;     /* lk_job_run() is under way, and goes through the phases itself */
    int64_t phase; /* of the experiment's that the trainer is for; 0 also where there are none */
};

/** Enter the first phase, when each of the others was entered once: what is wrong in one is reported before the
 * first step.  Collective over job->comm. */
lk_status lk__job_begin_phases(lk_job *job) LK_NODISCARD;

/** Make the trainer of a phase in place of the one there is, to begin with step `first`; where there are no
 * phases, that of the training.  What the model has learned stays.  Collective over job->comm; after a
 * failure the job has no trainer, and can only be freed. */
lk_status lk__job_enter_phase(lk_job *job, int64_t phase, int64_t first) LK_NODISCARD;

/** Fail on all ranks unless they have the same experiment, and sets of the same sizes.  Collective over
 * job->comm. */
lk_status lk__job_compare(const lk_job *job) LK_NODISCARD;

/** The same for the samples of the sets that the trainer has not compared. */
lk_status lk__job_compare_samples(const lk_job *job) LK_NODISCARD;

#endif /* LK_TRAIN_JOB_H */
