/* Leaving out fetches of margins (the rows of neighbouring tiles that a layer reads) whose values a
 * rank has already: for domains.c, when a plan is made. */
#ifndef LK_PARALLEL_MARGINS_H
#define LK_PARALLEL_MARGINS_H

#include "nn/model.h"

#include <lockstep/extra/plan.h>

/** Leave out the fetches of plan->tile whose margins are right already.  `spec` says what each tile was made
 * for, `tile_of` [layers] the number of each layer's, or -1.  Errors: LK_ENOMEM. */
lk_status lk__margins_plan(lk_plan *plan, const lk__net *net, const lk_tile_spec *spec,
                           const int64_t *tile_of) LK_NODISCARD;

#endif /* LK_PARALLEL_MARGINS_H */
