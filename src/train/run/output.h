/* lk__output: the files that a run writes to its folder.  files.c opens it on rank 0 and calls it
 * there, on the thread of the run.
 */
#ifndef LK_TRAIN_OUTPUT_H
#define LK_TRAIN_OUTPUT_H

#include "train/run/ledger.h"
#include "train/run/save.h"

typedef struct lk__output lk__output;

/** Make the folder and begin the files in it; with `resumed`, go on behind what they had then. */
lk_status lk__output_new(lk_job *job, const char *folder, const lk__progress *resumed,
                         lk__output **out) LK_NODISCARD;

/* What cannot be written is reported in the warnings, kept as far as that is possible and tried again with
 * what comes next; the status is the first failure of the call, and nothing else is left out for it. */

/** How many bytes the files have that grow, with what could not be written yet. */
void lk__output_sizes(const lk__output *o, int64_t *lines, int64_t *events);

/** Bring to disk what is written so far, before a checkpoint says that it is there. */
lk_status lk__output_sync(lk__output *o) LK_NODISCARD;

/** The files that could not be written so far, and what there is to warn of; borrowed. */
lk__ledger *lk__output_ledger(lk__output *o);

/** Whether there is a file STOP in the folder; it is removed. */
bool lk__output_stop(const lk__output *o);

/** All ranks together have written a file of weights of a chain, or not; the failure is forgotten. */
void lk__output_record_weights(lk__output *o, lk_missing file, lk_status st);

/** Whether a run that was complete `before` has to write its weights again. */
bool lk__output_needs_weights(const lk__output *o, bool before);

/** NULL is allowed. */
void lk__output_free(lk__output *o);

/** A `log` period has passed. */
lk_status lk__output_step(lk__output *o, const lk_step_report *report) LK_NODISCARD;

/** An epoch has ended, or an evaluation was made. */
lk_status lk__output_report(lk__output *o, const lk_epoch_report *report) LK_NODISCARD;

/** The run is over: weights and report, all on disk.  One that stopped has no weights; of one that was
 * complete `before` only what is not there is written. */
lk_status lk__output_end(lk__output *o, const lk_run_result *end, bool before) LK_NODISCARD;

/** The run has failed with the last error, which stays it: a report as far as it came. */
void lk__output_failed(lk__output *o, const lk_run_result *end);

#endif /* LK_TRAIN_OUTPUT_H */
