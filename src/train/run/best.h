/* lk__best: the file best.safetensors of a run, written by the run's output on rank 0 after each best
 * evaluation.
 */
#ifndef LK_TRAIN_BEST_H
#define LK_TRAIN_BEST_H

#include "io/weights.h"
#include "train/run/ledger.h"
#include "train/run/save.h"

typedef struct lk__best {
    const lk_job *job;
    char path[LK_PATH_SIZE];
    lk__weights *kept; /* that could not be written yet */
    int64_t step;      /* of these */
    lk__ledger *ledger;
} lk__best;

/** Write the weights of this step; those that cannot be written are kept and tried again. */
void lk__best_now(lk__best *b, int64_t step, lk_status *first);

/** Write the weights that are kept, if there are any. */
void lk__best_again(lk__best *b, lk_status *first);

/** A run goes on at step `at`: the file must hold the weights of p->best_step.  Otherwise it is written
 * again, if these are the weights that were loaded, or if there is a checkpoint of them. */
void lk__best_mend(lk__best *b, const lk__progress *p, int64_t at);

#endif /* LK_TRAIN_BEST_H */
