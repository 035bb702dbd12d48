/* Passes of a trainer: for step.c, eval.c, nonfinite.c and trainer.c. */
#ifndef LK_TRAIN_PASS_H
#define LK_TRAIN_PASS_H

#include "train/trainer.h"

/** What this rank has of the samples of a pass, as variables; `parts` may be NULL. */
lk_status lk__pass_enter(const lk_trainer *t, lk_tape *tape, const lk_pass_parts *parts,
                         const lk_batch *batch, lk_var *x, lk_var *y) LK_NODISCARD;

/** Let a loader give the boxes of x and y that passes take, or whole samples again. */
lk_status lk__pass_set_boxes(const lk_trainer *t, lk_loader *loader, bool on) LK_NODISCARD;

/** lk__loader_compare_samples() among the ranks of a trainer, each with the cache of its tile.  Collective. */
lk_status lk__pass_compare(const lk_trainer *t, const char *what, lk_loader *loader) LK_NODISCARD;

/** Losses of a pass: one, or one for each tile that this rank has. */
int64_t lk__pass_losses(const lk_trainer *t);

/** Loss number `leaf` of what comes out, and what it is of: the tile of both, if there are tiles. */
lk_status lk__pass_loss(const lk_trainer *t, int64_t leaf, lk_var *out, lk_var *y,
                        lk_var *loss) LK_NODISCARD;

#endif /* LK_TRAIN_PASS_H */
