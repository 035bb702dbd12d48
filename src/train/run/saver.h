/* lk__saver from inside: what a checkpoint of a run has, and how far saving is.  lk_job_run() opens one on
 * each rank and calls it on its thread, through save.h; save.c saves, resume.c loads, and job_plan.c has
 * one on its stack, for the bytes alone.
 */
#ifndef LK_TRAIN_SAVER_H
#define LK_TRAIN_SAVER_H

#include "train/job.h"
#include "train/run/save.h"
#include "train/trainer.h"

enum { LK__MAX_NUMBERS = 16 };

/* Numbers of a run that has phases: which one is saved, and the step that it began with. */
#define LK__PHASE "run.phase"
#define LK__PHASE_FIRST "run.phase_first"

struct lk__saver {
    lk_job *job;
    lk_trainer *trainer;
    lk__progress *progress;
    const lk_run_callbacks *callbacks; /* called on rank 0 with what takes time; NULL: none */
    lk_checkpoint_dir *folder;
    lk_state_tensors *tensors;
    lk_state_number number[LK__MAX_NUMBERS];
    bool waits;            /* this rank has reported that its part is written */
    int64_t written;       /* ranks that have reported so */
    int64_t saving, saved; /* steps */
};

/** Fill in s->tensors, of the job's trainer, and what saving them takes in its plan. */
lk_status lk__saver_describe(lk__saver *s) LK_NODISCARD;

/** Fill in plan->memory.saving for the plan's rank of this state. */
lk_status lk__saver_plan(const lk__saver *s, lk_plan *plan) LK_NODISCARD;

/** Fill in s->number as they are now; returns how many. */
int64_t lk__saver_numbers(lk__saver *s);

/** Numbers that were loaded go to where they belong, in the order in which they are described, and so do the
 * sums that are pending. */
lk_status lk__saver_take_numbers(lk__saver *s) LK_NODISCARD;

#endif /* LK_TRAIN_SAVER_H */
