/* lk__shard_sums: what passes over single shards, or the micro-batches of a pipeline, add up for a model, joined
 * by the tree over them as they come (partials.h).
 *
 * For models that use a parameter more than once: there the contributions of a shard must be added up
 * before shards are joined.  And for pipelines, whose micro-batches come one after the other.  A trainer has
 * one for its model, or one for each model of its chain, and calls it on its thread.
 *
 *     lk__shard_sums_begin(&s, to);
 *     for each piece
 *         lk__shard_sums_next(&s, &own);
 *         ... a pass into own ...
 *         lk__shard_sums_push(&s);
 *     lk__shard_sums_finish(&s, to);
 *
 * The oldest sum lies in `to` from the first piece on.  Where passes may add to what is there (`adds`), every
 * second piece goes where the one before it is, so that n of them take log2(n + 1) accumulators.
 */
#ifndef LK_TRAIN_SHARDS_H
#define LK_TRAIN_SHARDS_H

#include "base/partials.h"
#include "nn/model.h"

/** Begin with zeros and the model; end with lk__shard_sums_free(). */
typedef struct lk__shard_sums {
    const lk_model *model;
    lk__leaves leaves; /* that its accumulators keep apart */
    bool adds;
    lk__partials partials; /* lk_accumulator */
    lk_accumulator *to;    /* the first piece's; NULL: a spare one */
    lk_accumulator *piece; /* the next one's */
    lk_accumulator *spare[LK__LEVELS];
    int n_spare;
} lk__shard_sums;

void lk__shard_sums_free(lk__shard_sums *s);

/** Begin a batch, whose sum is to lie in `to`, which is borrowed until it is finished; NULL: it is copied then. */
void lk__shard_sums_begin(lk__shard_sums *s, lk_accumulator *to);

/** The accumulator that the next piece is to fill, as lk_accumulator_begin() leaves it, or to add to. */
lk_status lk__shard_sums_next(lk__shard_sums *s, lk_accumulator **out) LK_NODISCARD;

/** That piece is done. */
lk_status lk__shard_sums_push(lk__shard_sums *s) LK_NODISCARD;

/** The sum of all pieces since the batch began, at least one, into `to`. */
lk_status lk__shard_sums_finish(lk__shard_sums *s, lk_accumulator *to) LK_NODISCARD;

#endif /* LK_TRAIN_SHARDS_H */
