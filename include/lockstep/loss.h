/* Losses: what training makes small.
 *
 * A loss is one constant descriptor in one file of src/nn/losses.  It gives the sum over the samples
 * of each sample's loss; the trainer divides by the number of samples of the whole batch, so that
 * the loss and its gradients do not depend on how the batch is cut.
 *
 * Not collective.
 */
#ifndef LK_LOSS_H
#define LK_LOSS_H

#include <lockstep/nn.h>

LK_BEGIN_DECLS

typedef struct lk_cost {
    lk_entry entry;

    /** Whether a model that gives `out` can be trained on targets like `target`, one sample of each.
     * Errors: LK_ESHAPE and LK_EDTYPE naming both. */
    lk_status (*check)(const void *options, lk_io out, lk_io target);

    /** *out = the sum of the samples' losses, for y [samples, ...] and targets. */
    lk_status (*apply)(const void *options, lk_var y, lk_var target, lk_var *out);
} lk_cost;

/** The losses that are built in, sorted by name, then NULL. */
LK_API extern const lk_cost *const lk_costs[];
LK_API extern const lk_kind lk_kind_loss;

LK_END_DECLS

#endif /* LK_LOSS_H */
