/* lk__shard_sums: what passes over single shards add up for a model, joined by the tree over the shards.
 *
 * For models that use a parameter more than once: there the contributions of a shard must be added up
 * before shards are joined (partials.h).  A trainer has one for its model, or one for each model of its
 * chain, and calls it on its thread.
 */
#ifndef LK_TRAIN_SHARDS_H
#define LK_TRAIN_SHARDS_H

#include "base/partials.h"
#include "nn/model.h"

/** Begin with zeros and the model; end with lk__shard_sums_free(). */
typedef struct lk__shard_sums {
    const lk_model *model;
    lk__leaves leaves;     /* that its accumulators keep apart */
    lk__partials partials; /* lk_accumulator, made when needed */
    lk_accumulator *spare; /* the next shard's */
} lk__shard_sums;

void lk__shard_sums_free(lk__shard_sums *s);

/** Begin a batch. */
static inline void lk__shard_sums_begin(lk__shard_sums *s)
{
    s->partials.n = 0;
}

/** The accumulator that the next shard is to fill, as lk_accumulator_begin() leaves it. */
lk_status lk__shard_sums_next(lk__shard_sums *s, lk_accumulator **out) LK_NODISCARD;

/** That shard is done. */
lk_status lk__shard_sums_push(lk__shard_sums *s) LK_NODISCARD;

/** The sum of all shards since the batch began, at least one, into `to`. */
lk_status lk__shard_sums_finish(lk__shard_sums *s, lk_accumulator *to) LK_NODISCARD;

#endif /* LK_TRAIN_SHARDS_H */
