/* lk__run, what lk_job_run() remembers while it goes on: for run.c, the loop, phases.c, from one phase
 * to the next, and files.c, what is kept on disk.  Each rank has one, on the thread that called.
 */
#ifndef LK_TRAIN_RUN_H
#define LK_TRAIN_RUN_H

#include "train/job.h"
#include "train/run/output.h"
#include "train/run/save.h"
#include "train/trainer.h"

/* What a run remembers. */
typedef struct lk__run {
    lk_job *job;
    lk_trainer *trainer;
    lk_comm *comm; /* NULL: this rank is alone */
    const lk_train_options *options;
    const lk_run_callbacks *callbacks;
    lk__output *output; /* on rank 0; NULL: nothing is written */
    lk__saver *saver;   /* NULL: nothing is saved */
    lk__progress progress;
    lk_run_result result;
    int64_t began, epoch_began, looked; /* ns */
    int64_t epoch_samples;
    lk_step_seconds time;       /* of the epoch's steps on this rank */
    lk_step_seconds *rank_time; /* of all ranks */
    char no_checkpoint[640];    /* why the last one could not be written */
    bool lower;                 /* whether lower is better in what early stopping looks at */
    int metric;                 /* its number, -1: the loss */
} lk__run;

/** Find what early stopping, and the best weights, look at; nothing is best yet. */
lk_status lk__run_monitor(lk__run *r) LK_NODISCARD;

/** The steps that the phase, and the run, end with, unless they stop before. */
int64_t lk__run_phase_end(const lk__run *r);
int64_t lk__run_last_step(const lk__run *r);

/** Enter the phase of the newest checkpoint, to load it.  Collective. */
lk_status lk__run_find_phase(lk__run *r) LK_NODISCARD;

/** The next phase begins where this one has ended: with an optimizer of its own, and nothing is best yet.
 * Collective; after a failure the job has no trainer. */
lk_status lk__run_next_phase(lk__run *r) LK_NODISCARD;

/** Call `message` on rank 0; not for "". */
void lk__run_message(const lk__run *r, const char *text);

/** Make the output folder, if there is to be one.  Collective, like all that follow. */
lk_status lk__run_folder(lk__run *r) LK_NODISCARD;

/** Open the files in it, and go on with those of a run that is resumed. */
lk_status lk__run_output(lk__run *r) LK_NODISCARD;

/* Output errors: warn and go on, or stop, as checkpoint.on_error says. */

lk_status lk__run_write_step(lk__run *r, const lk_step_report *report) LK_NODISCARD;
lk_status lk__run_write_report(lk__run *r, const lk_epoch_report *report) LK_NODISCARD;

/** Begin to save a checkpoint, when the last one is complete; `wait`: until it is on disk. */
lk_status lk__run_save(lk__run *r, bool wait) LK_NODISCARD;

/** Wait for the save that is under way, if one is. */
lk_status lk__run_save_finish(lk__run *r) LK_NODISCARD;

/** The files, then the last checkpoint: one that says that the run is complete.  Errors: LK_EIO when not
 * all is on disk, saying what is missing. */
lk_status lk__run_finish(lk__run *r) LK_NODISCARD;

/** A run that fails with `st` still publishes what it has written, if ranks can talk to each other. */
void lk__run_save_last(lk__run *r, lk_status st);

#endif /* LK_TRAIN_RUN_H */
