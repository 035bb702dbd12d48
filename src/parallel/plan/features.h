/* Features in a plan: which layers have a part of them, and how values change on their way.  lk_plan_new()
 * makes it, on each rank. */
#ifndef LK_PARALLEL_PLAN_FEATURES_H
#define LK_PARALLEL_PLAN_FEATURES_H

#include <lockstep/extra/plan.h>

/** The parts of all layers along features, checked to go together; nothing where the model's pieces have one block.
 * Behind lk__domains_plan(), whose tiles it looks at. */
lk_status lk__features_plan(lk_plan *p, const lk_mesh *mesh, const lk_model *model) LK_NODISCARD;

/** Whether ranks have some features each of what a layer gives to the next one. */
bool lk__plan_varies(const lk_plan *p, int64_t layer);

/** Which of n features of that the plan's rank has. */
lk_range lk__plan_out_features(const lk_plan *p, int64_t layer, int64_t n);

/** Calls of a sample along features, and bytes that this rank gives to them. */
typedef struct lk__feature_calls {
    int64_t gathers, gather_bytes, joins, join_bytes;
} lk__feature_calls;

/** Those of a layer in forward or in backward; `needs`: what it takes has a gradient.  And of
 * the loss, and of metrics. */
lk__feature_calls lk__feature_calls_of(const lk_plan *p, const lk_model *model, int64_t layer,
                                       bool forward, bool needs);
lk__feature_calls lk__feature_out_calls(const lk_plan *p, const lk_model *model, bool metrics);

#endif /* LK_PARALLEL_PLAN_FEATURES_H */
