/* The plan that a trainer runs from, those that it would have in other layouts, and what they take.
 *
 * `lockstep plan` calls these, on the trainer's thread.
 */
#ifndef LK_TRAINER_PLAN_H
#define LK_TRAINER_PLAN_H

#include <lockstep/extra/plan.h>
#include <lockstep/train.h>

LK_BEGIN_DECLS

/** What this rank does in a step; borrowed. */
LK_API const lk_plan *lk_trainer_plan(const lk_trainer *trainer);

/** The plan that rank `rank` would have if `ranks` of one node trained this in another layout; the caller
 * owns `*out`, and frees it before the trainer.  Not collective.  Errors: as lk_mesh_at() and
 * lk_plan_new(), and those of lk_trainer_new() for a layout that does not go with the trainer's options. */
LK_API lk_status lk_trainer_plan_of(const lk_trainer *trainer, const lk_mesh_shape *shape,
                                    int ranks, int rank, lk_plan **out) LK_NODISCARD;

/**
 * Find what the passes of a plan take, plan->memory.values, by some that ask for their memory, which they do
 * not touch, and compute nothing: with gradients of values, scratch and what kernels keep, which arithmetic
 * on layers does not tell.  They are passes of a step and, where `eval` is the loader of an evaluation and
 * not NULL, of that, whose samples then count in memory.samples.  Where samples are cut into tiles over
 * ranks, the trainer stands in for the plan's rank, and memory.samples becomes that of its boxes.
 *
 * Nothing is trained.  Errors: LK_ESTATE unless the trainer is of this rank alone, at step 0; those of
 * the model.
 */
LK_API lk_status lk_trainer_rehearse(lk_trainer *trainer, lk_loader *eval,
                                     lk_plan *plan) LK_NODISCARD;

/**
 * lk_trainer_plan_of() of a job's trainer, with all that the rank would take: lk_trainer_rehearse(), with
 * evaluations where the experiment has them, and the copy of the state that saving makes where it has a
 * folder for checkpoints.
 *
 * Errors: those of both; LK_ENOMEM.
 */
LK_API lk_status lk_job_plan(lk_job *job, const lk_mesh_shape *shape, int ranks, int rank,
                             lk_plan **out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_TRAINER_PLAN_H */
