/* lk__batch_work: this rank's part of a batch of a step, an evaluation or a rehearsal.  step.c, eval.c and
 * rehearse.c have one on the stack, on the trainer's thread, and batches.c, or with stages pipeline/batch.c,
 * goes through it; ranks that communicate in passes do so together.
 */
#ifndef LK_TRAIN_BATCHES_H
#define LK_TRAIN_BATCHES_H

#include "train/trainer.h"

/** A batch that ranks go through together, and how. */
typedef struct lk__batch_work {
    lk_loader *loader;
    int64_t epoch, number;
    int64_t from, size; /* samples of the loader's batch that are taken for a batch */
    lk_range shards;    /* this rank's of it */
    /* Ranks wait for each other in passes.  So each makes them, one without a shard over no samples, and one
     * that could not read with zeros. */
    bool communicates;
    bool trains; /* by a step; otherwise it is evaluated */
    const lk_range
        *zeros; /* of a rehearsal: samples of the batch in whose place zeros are; NULL: none are */
} lk__batch_work;

/**
 * Read this rank's samples, if it has some, into `batch`, and make a pass over each micro-batch of them.
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

/** A pass of an evaluation over micro-batch number `k` of this rank, which records nothing; lk__microbatch_pass()
 * is one of a step. */
lk_status lk__eval_microbatch(lk_trainer *t, const lk_batch *batch, int k) LK_NODISCARD;

#endif /* LK_TRAIN_BATCHES_H */
