/* The stages of a pipeline: consecutive ranges of the model's list of layers, how they are cut, and
 * what a rank of one stage holds, sends and receives. plan.c and the trainer's pipeline ask;
 * arithmetic. */
#ifndef LK_PARALLEL_STAGES_H
#define LK_PARALLEL_STAGES_H

#include <lockstep/extra/plan.h>

/**
 * Cut the list of a model that is built into `stages` ranges: stage s has the layers from first[s] on and
 * before first[s + 1], [stages + 1] of them.  It follows from the model alone, on every rank the same.
 *
 * Not collective.  Errors: LK_EINVAL when there are fewer layers than stages; LK_ENOMEM.
 */
lk_status lk__stages_cut(const lk_model *model, int stages, int64_t *first) LK_NODISCARD;

/** Fill in plan->layers, and of each layer whose it is; `layer` and `runs` are there.  Errors: as above. */
lk_status lk__stage_plan(lk_plan *plan, const lk_model *model) LK_NODISCARD;

/** Fill in plan->pipeline, and the passes of a whole batch. */
void lk__pipeline_plan(lk_plan *plan, const lk_model *model);

/** Whether a layer of the plan's stage uses a parameter, and so the rank holds it. */
bool lk__stage_uses(const lk_plan *plan, const lk_model *model, int64_t param);

/** Bytes of one sample that go from a rank to the next stage where the cut is behind layer number `layer` of the
 * list. */
int64_t lk__boundary_bytes(const lk_plan *plan, const lk_model *model, int64_t layer);

/** Accumulators that a rank has for the sums of a batch: of its micro-batches, which are joined as they come. */
int64_t lk__stage_slabs(const lk_plan *plan, const lk_model *model);

/** What of a value goes from layer number `layer` of the list to the next one where the cut is behind it: the held
 * box of its tiles; NULL: whole samples. */
const lk_held *lk__boundary_held(const lk_plan *plan, const lk_model *model, int64_t layer);

/** Say what comes in to a stage behind the first, in place of what does to the model: plan->in, plan->x. */
void lk__stage_input_plan(lk_plan *plan, const lk_model *model);

/** The micro-batches that so many shards of a replica are. */
int64_t lk__plan_microbatches(const lk_plan *plan, int64_t shards);

/** The most micro-batches that the rank has of any batch: of a smaller one it may have more shards.  Errors:
 * LK_ENOMEM. */
lk_status lk__plan_most_microbatches(const lk_plan *plan, int64_t *out) LK_NODISCARD;

#endif /* LK_PARALLEL_STAGES_H */
