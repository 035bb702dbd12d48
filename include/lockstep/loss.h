/* Losses: what training makes small.
 *
 * A loss is one constant descriptor in one file of src/nn/losses.  It gives a sum over the samples;
 * the trainer divides by the number of samples of the whole batch, and by the parts that a sample's
 * loss is the mean of, once for all: so that neither the loss nor its gradients depend on how the
 * batch is cut.
 *
 * Not collective.
 */
#ifndef LK_LOSS_H
#define LK_LOSS_H

#include <lockstep/nn.h>

LK_BEGIN_DECLS

typedef struct lk_loss {
    lk_descriptor descriptor;
    bool probabilities; /* real targets are probabilities of classes, not values to be predicted */

    /** Whether a model that gives `out` can be trained on targets like `target`, one sample of each.
     * Errors: LK_ESHAPE and LK_EDTYPE naming both. */
    lk_status (*check)(const void *options, lk_tensor_type out, lk_tensor_type target);

    /** A sample's loss is the mean over so many parts, for a model that gives `out`; NULL: one. */
    int64_t (*parts)(lk_tensor_type out);

    /** *out = the sum over samples and their parts, for y [samples, ...] and targets. */
    lk_status (*apply)(const void *options, lk_var y, lk_var target, lk_var *out);

    /** The same of y of which ranks have some features each, the last axis, of `n` in all, with integer targets
     * that all have; NULL: it needs all features. */
    lk_status (*apply_split)(const void *options, const lk_feature_split *split, int64_t n,
                             lk_var y, lk_var target, lk_var *out);
} lk_loss;

/** The losses that are built in, sorted by name, then NULL. */
LK_API extern const lk_loss *const lk_losses[];
LK_API extern const lk_registry lk_registry_loss;

LK_END_DECLS

#endif /* LK_LOSS_H */
