/* Which layers of a model run by tiles and which by samples. plan.c asks when it makes an lk_plan;
 * arithmetic, the same on all ranks. */
#ifndef LK_PARALLEL_DOMAINS_H
#define LK_PARALLEL_DOMAINS_H

#include "nn/model.h"

#include <lockstep/extra/plan.h>

/** Make plan->tiling of the plan's pieces and the mesh: axes that are not cut at the end are left out.  Errors:
 * LK_EINVAL for a grid that tiles or samples do not allow, with the line that would work; LK_ENOMEM. */
lk_status lk__plan_tiling(lk_plan *plan, const lk_mesh *mesh, const lk__net *net) LK_NODISCARD;

/** Fill in plan->tiling, parts, tiles and domains, if the pieces of the plan have tiles.  Not collective.
 * Errors: LK_EINVAL for a grid that tiles or model do not allow, naming axis and sizes; LK_ENOMEM. */
lk_status lk__domains_plan(lk_plan *plan, const lk_mesh *mesh, const lk_model *model) LK_NODISCARD;
void lk__domains_free(lk_plan *plan);

#endif /* LK_PARALLEL_DOMAINS_H */
