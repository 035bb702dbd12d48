/* The messages of a step by layer and rank, in bytes: plan.c asks when it makes an lk_plan, for
 * `lockstep plan`. */
#ifndef LK_PARALLEL_TRANSFERS_H
#define LK_PARALLEL_TRANSFERS_H

#include <lockstep/extra/plan.h>

/** Fill in plan->transfer, in the order of a step, when all else of the plan is known; and of each layer,
 * which margins it fetches.  Not collective.  Errors: LK_ENOMEM. */
lk_status lk__transfers_plan(lk_plan *plan, const lk_model *model) LK_NODISCARD;

/** Which of plan->transfer a layer, with those within it, sends in forward: [first, end), behind its lists from
 * `after` on. */
typedef struct lk__sent_forward {
    int64_t first, after, end;
} lk__sent_forward;

/** Add what layers that backward runs again send again, of what they have sent in forward; `sent` by layer.  *max is
 * the room of plan->transfer.  Not collective.  Errors: LK_ENOMEM. */
lk_status lk__transfers_again(lk_plan *plan, const lk_model *model, const lk__sent_forward *sent,
                              int64_t *max) LK_NODISCARD;

#endif /* LK_PARALLEL_TRANSFERS_H */
