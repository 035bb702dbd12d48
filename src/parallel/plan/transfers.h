/* What a step sends: for plan.c, which makes a lk_plan. */
#ifndef LK_PARALLEL_TRANSFERS_H
#define LK_PARALLEL_TRANSFERS_H

#include <lockstep/extra/plan.h>

/** Fill in plan->transfer, in the order of a step, when all else of the plan is known; and of each layer,
 * which margins it fetches.  Not collective.  Errors: LK_ENOMEM. */
lk_status lk__transfers_plan(lk_plan *plan, const lk_model *model) LK_NODISCARD;

#endif /* LK_PARALLEL_TRANSFERS_H */
