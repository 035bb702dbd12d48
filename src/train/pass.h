/* One pass of a trainer over a micro-batch: samples enter the tape, forward runs, and loss and
 * metrics are taken.  For step.c, eval.c, nonfinite.c and trainer.c, on the trainer's thread. */
#ifndef LK_TRAIN_PASS_H
#define LK_TRAIN_PASS_H

#include "train/trainer.h"

/** What this rank has of the samples of a pass, as variables; `parts` may be NULL.  *y is no value where the
 * experiment's loss does not count. */
lk_status lk__pass_enter(const lk_trainer *t, lk_tape *tape, const lk_pass_parts *parts,
                         const lk_batch *batch, lk_var *x, lk_var *y) LK_NODISCARD;

/** The target alone, of a stage that gets its input from another. */
lk_status lk__pass_enter_target(const lk_trainer *t, lk_tape *tape, const lk_pass_parts *parts,
                                const lk_batch *batch, lk_var *y) LK_NODISCARD;

/** Room for passes of a plan on `tape`, which is borrowed; and what it takes is freed, also after a failure. */
lk_status lk__pass_room_make(const lk_trainer *t, const lk_plan *plan, lk_tape *tape,
                             lk__pass_room *out) LK_NODISCARD;
void lk__pass_room_free(lk__pass_room *room);

/** The parts of a pass over samples of the batch that is dealt, in `room`; NULL: nothing is cut. */
const lk_pass_parts *lk__pass_parts(const lk_trainer *t, const lk_batch *batch,
                                    lk__pass_room *room);

/** A training pass over a part of the batch, of one at a time with a room. */
lk_pass lk__pass_of(const lk_trainer *t, const lk_batch *batch, lk_accumulator *accumulator,
                    lk__pass_room *room);

/** Whether this rank's stage has a loss that counts. */
bool lk__pass_has(const lk_trainer *t, const lk__summand *summand);

/** Let a loader give the boxes of x and y that passes take, or whole samples again. */
lk_status lk__pass_set_boxes(const lk_trainer *t, lk_loader *loader, bool on) LK_NODISCARD;

/** lk__loader_compare_samples() among the ranks of a trainer, each with the cache of its tile.  Collective. */
lk_status lk__pass_compare(const lk_trainer *t, const char *what, lk_loader *loader) LK_NODISCARD;

/** Whether a loss that counts is one of tiles, and how many a pass has of it. */
bool lk__pass_is_tiled(const lk_trainer *t, const lk__summand *summand);
int64_t lk__pass_leaves(const lk_trainer *t, const lk__summand *summand);

/** The terms of a pass; NULL: none counts. */
static inline const lk_pass_terms *lk__pass_terms(const lk_trainer *t)
{
    return t->terms.value ? &t->terms : NULL;
}

/** What comes out of a pass, what it is compared with, and where its losses and metrics go. */
typedef struct lk__pass_out {
    lk_var out, y;
    lk__counts *counts;
    lk_accumulator *accumulator; /* NULL: of an evaluation, */
    int64_t microbatch;          /* whose number this is */
    lk_seed *seeds;              /* room for those of all losses */
} lk__pass_out;

/**
 * Take all losses of a pass that has run forward, those of t->summand in their order, of each one or one for
 * each tile that this rank has.  Metrics of what comes out go to `counts`.  The losses are added to the
 * accumulator and get seeds, as many as is returned in *n; without an accumulator they are put into
 * summand->own, as those of the micro-batch.  Those of other stages are left out.
 */
lk_status lk__pass_take(const lk_trainer *t, const lk__pass_out *pass, int64_t *n) LK_NODISCARD;

#endif /* LK_TRAIN_PASS_H */
