/* This rank's part of a batch: for step.c, eval.c and rehearse.c. */
#ifndef LK_TRAIN_BATCHES_H
#define LK_TRAIN_BATCHES_H

#include "train/trainer.h"

/** A pass over micro-batch number `k` of this rank, whose samples `batch` has; `last`: there is none behind it. */
typedef lk_status lk__microbatch_fn(lk_trainer *t, const lk_batch *batch, int k, bool last,
                                    lk_step_seconds *time);

/** A batch that ranks go through together, and how. */
typedef struct lk__batch_work {
    lk_loader *loader;
    int64_t epoch, number;
    int64_t from, size; /* samples of the loader's batch that are taken for a batch */
    lk_range shards;    /* this rank's of it */
    /* Ranks wait for each other in passes.  So each makes them, one without a shard over no samples, and one
     * that could not read with zeros. */
    bool meets;
    lk__microbatch_fn *pass;
} lk__batch_work;

/**
 * Read this rank's samples, if it has some, into `batch`, and make the passes over them.
 *
 * Errors: those of passes; ranks that meet there wait for this one, which then ends the job
 * (lk__pass_failed()).  *unread: why samples could not be read, as this thread's last error.
 */
lk_status lk__batch_run(lk_trainer *t, const lk__batch_work *work, lk_batch *batch,
                        lk_step_seconds *time, lk_status *unread) LK_NODISCARD;

/** The same where the model is cut into stages, by the list of this rank's. */
lk_status lk__pipeline_run(lk_trainer *t, const lk__batch_work *work, lk_batch *batch,
                           lk_step_seconds *time, lk_status *unread) LK_NODISCARD;

/** Samples of a batch of `size` that shards have: where they begin and how many. */
lk_range lk__batch_samples(const lk_trainer *t, int64_t size, lk_range shards);

/** Read samples of the work's batch, as those of a batch of its size; the loader owns them. */
lk_status lk__batch_read(const lk_trainer *t, const lk__batch_work *work, lk_range samples,
                         lk_batch *batch) LK_NODISCARD;

/** Make zeros for the samples of `batch`, which the caller owns also after a failure. */
lk_status lk__batch_zeros(const lk__batch_work *work, lk_batch *batch) LK_NODISCARD;

/** The passes over samples first <= i < first + n of the batch with zeros in their place: to take part without
 * those that could not be read, or to rehearse. */
lk_status lk__batch_run_zeros(lk_trainer *t, const lk__batch_work *work, lk_range samples,
                              lk_step_seconds *time) LK_NODISCARD;

/** The passes of a step, and of an evaluation. */
lk__microbatch_fn lk__step_microbatch, lk__eval_microbatch;

#endif /* LK_TRAIN_BATCHES_H */
