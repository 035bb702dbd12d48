/* lk__pipeline: what a trainer has where the model is cut into stages: tapes for the micro-batches that are under
 * way, what goes to the neighbours, and the lists of actions.
 *
 * trainer.c makes one on each rank, behind plan and groups; step.c and eval.c run it, on the trainer's
 * thread.  Ranks along the stages run together: all but free are collective over them.
 */
#ifndef LK_TRAIN_PIPELINE_H
#define LK_TRAIN_PIPELINE_H

#include <lockstep/train.h>

typedef struct lk__pipeline lk__pipeline;

/** Make t->pipeline if the plan has several stages.  Not collective.  Errors: LK_ENOMEM; those of schedules. */
lk_status lk__pipeline_make(lk_trainer *t) LK_NODISCARD;

/** Waits for what is under way.  NULL is allowed. */
void lk__pipeline_free(lk__pipeline *pipeline);

/** Exchange the gradients of the uses of parameters that several stages share, each use's from the stage that
 * has it, joined over its replicas, to the others. */
lk_status lk__pipeline_join_shared(const lk_trainer *t, lk_accumulator *sums) LK_NODISCARD;

/** Whether this rank's stage is the first that uses a parameter: what is said once of it, it says. */
bool lk__pipeline_owns(const lk_trainer *t, int64_t param);

/** lk_optimizer_input.join_sums, its context being the trainer. */
lk_status lk__pipeline_join_sums(void *trainer, double *sum, int64_t n) LK_NODISCARD;

/** Make t->pipeline of the plan that the trainer has for a rehearsal, and let a micro-batch of these samples
 * of the batch, zeros, go through each of its tapes: forward and backward, without the other stages.  *bytes:
 * the most that it took, without sums and samples.  The caller frees it.  Not collective. */
lk_status lk__pipeline_rehearse(lk_trainer *t, lk_range samples, int64_t *bytes) LK_NODISCARD;

/** Pass this rank's samples of t->step's batch through the layers of all stages, one micro-batch after the
 * other, to find the first of its layers whose output is not finite: its name; "": none. */
lk_status lk__pipeline_find_nonfinite(lk_trainer *t, const lk_batch *batch, char *name,
                                      size_t size) LK_NODISCARD;

#endif /* LK_TRAIN_PIPELINE_H */
