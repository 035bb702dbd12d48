/* lk__saver: the checkpoints of a run.  lk_job_run() opens one on each rank and calls it on its thread;
 * what is collective is marked.
 */
#ifndef LK_TRAIN_SAVE_H
#define LK_TRAIN_SAVE_H

#include "base/path.h"

#include <lockstep/checkpoint.h>
#include <lockstep/train.h>

/* What a run has besides its trainer. */
typedef struct lk__progress {
    int64_t without; /* evaluations without progress */
    int64_t best_epoch;
    int64_t best_step; /* of the evaluation; -1: none */
    int64_t missing;   /* files that could not be written so far: bits, LK_MISSING_... */
    double best, rate;
    int64_t lines_bytes, events_bytes; /* of the files that grow, on rank 0 */
} lk__progress;

typedef struct lk__saver lk__saver;

/** Open the folder of a job's checkpoints.  `*out` is NULL if it has none.  Collective. */
lk_status lk__saver_open(lk_job *job, lk__progress *progress, const lk_run_callbacks *callbacks,
                         lk__saver **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__saver_close(lk__saver *s);

/** The job has entered another phase: what is saved from now on is that.  No save is under way.
 * Collective. */
lk_status lk__saver_follow(lk__saver *s) LK_NODISCARD;

/** Which phase the newest checkpoint is of, and the step that it began with; 0 if there is none.
 * Collective. */
lk_status lk__saver_find_phase(lk__saver *s, int64_t *phase, int64_t *first) LK_NODISCARD;

/** Go on from the newest checkpoint; `*step` is -1 if there is none.  Collective. */
lk_status lk__saver_load(lk__saver *s, int64_t *step) LK_NODISCARD;

/** Begin to save, when no save is under way, a state with the hash lk_trainer_hash().  Collective. */
lk_status lk__saver_begin(lk__saver *s, uint64_t hash) LK_NODISCARD;

/** After each step: whether all ranks have written the save that is under way.  The same on all. */
bool lk__saver_is_written(lk__saver *s);

/** Wait for the save that is under way, and publish it; `*step` is the step it is of, -1: none is under way.
 * Collective. */
lk_status lk__saver_finish(lk__saver *s, int64_t *step) LK_NODISCARD;

/** The step of the last checkpoint that is on disk; -1: none. */
int64_t lk__saver_saved(const lk__saver *s);

/** The folder of the checkpoints of a run that has some. */
lk_status lk__saver_folder(const lk_train_options *options, char path[LK_PATH_SIZE]) LK_NODISCARD;

/** What the last save or load has to say besides its status, a line each; "" if nothing. */
const char *lk__saver_messages(const lk__saver *s);

#endif /* LK_TRAIN_SAVE_H */
