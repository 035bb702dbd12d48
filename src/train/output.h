/* What a run writes to its folder. */
#ifndef LK_TRAIN_OUTPUT_H
#define LK_TRAIN_OUTPUT_H

#include "train/save.h"

typedef struct lk__output lk__output;

/** Make the folder and begin the files in it; with `resumed`, go on behind what they had then. */
lk_status lk__output_new(lk_job *job, const char *folder, const lk__progress *resumed,
                         lk__output **out) LK_NODISCARD;

/** How many bytes the files have that grow. */
void lk__output_sizes(const lk__output *o, int64_t *lines, int64_t *events);

/** Whether there is a file STOP in the folder; it is removed. */
bool lk__output_stop(const lk__output *o);

/** The run stops before its end: close the files. */
lk_status lk__output_close(lk__output *o) LK_NODISCARD;

/** NULL is allowed. */
void lk__output_free(lk__output *o);

/** A `log` period has passed. */
lk_status lk__output_step(lk__output *o, const lk_step_report *report) LK_NODISCARD;

/** An epoch has ended, or an evaluation was made. */
lk_status lk__output_report(lk__output *o, const lk_epoch_report *report) LK_NODISCARD;

/** The run is over: weights and report. */
lk_status lk__output_end(lk__output *o, const lk_run_end *end) LK_NODISCARD;

#endif /* LK_TRAIN_OUTPUT_H */
