/* lk__chained: what a trainer has where it trains a chain list, in place of plan and groups.
 *
 * trainer.c makes one on each rank for lk_trainer_spec.chain and calls it, on its thread.  All but free are
 * collective over the ranks of the chain.
 */
#ifndef LK_TRAIN_CHAINED_H
#define LK_TRAIN_CHAINED_H

#include "parallel/chain/chain.h"
#include "train/shards.h"

#include <lockstep/checkpoint.h>
#include <lockstep/train.h>

typedef struct lk__chained {
    lk__chain_state *state;
    bool has_x, has_y;      /* what this rank's data has */
    bool has_output;        /* this rank has an output of the chain, and so a loss */
    int64_t *deal;          /* [ranks + 1] for the control vector: one loss of each rank */
    lk__shard_sums *shards; /* of each component, where a model uses a parameter more than once */
    double *shard_loss;     /* then, of each shard of a batch */
} lk__chained;

/** Bind the models, and find out which ranks have an output and what it is: t->chained and t->out.
 * Errors, on all ranks: LK_EINVAL when no rank has an output, for a rank that has one and no field "y" to
 * compare it with, and for metrics of outputs that are not alike; those of lk__chain_state_new() and of the
 * components. */
lk_status lk__chained_make(lk_trainer *t) LK_NODISCARD;

void lk__chained_free(lk_trainer *t);

/** lk_trainer_step(). */
lk_status lk__chained_step(lk_trainer *t, lk_step_report *report) LK_NODISCARD;

/** Whether this rank's batches of a loader are as those that it trains with.  Not collective.  Errors:
 * LK_ESHAPE naming the field. */
lk_status lk__chained_check_loader(const lk_trainer *t, const lk_loader *loader) LK_NODISCARD;

/** Add the loss and the metrics of some samples of batch `number` of a loader, which are taken for a batch, to
 * t->eval_counts. */
lk_status lk__chained_eval(lk_trainer *t, lk_loader *loader, int64_t number,
                           lk_range samples) LK_NODISCARD;

/** The name of this rank's first component that gives what is not finite for t->step's batch; "": none. */
lk_status lk__chained_find_nonfinite(lk_trainer *t, const lk_batch *batch, char *name,
                                     size_t size) LK_NODISCARD;

/** Append the models' state, such as running statistics, of all ranks. */
lk_status lk__chained_add_state(const lk_trainer *t, lk_state_tensors *to) LK_NODISCARD;

#endif /* LK_TRAIN_CHAINED_H */
