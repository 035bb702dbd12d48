/* adamax: adam with the largest |h|, fading, in place of the mean square:
 *
 *     v = max(beta2 v, |h|)        w = w - rate m / (1 - beta1^t) / (v + eps)
 */
#include "optim/rules.h"

static const lk_option options[] = {LK__MOMENTS_OPTIONS("0.002"), {0}};

static lk_status adamax_update(const lk_update_call *call)
{
    lk__update u = lk__moments_update(call);
    return LK_TRACE(lk__update_run(call->dtype, LK__UPDATE_ADAMAX, &u, call->n));
}

const lk_update_rule lk__update_rule_adamax = {
    .descriptor = {.name = "adamax",
                   .summary = "w = w - rate m' / (v + eps), v = max(beta2 v, |h|)",
                   .options = options,
                   .options_size = sizeof(lk__moments_options)},
    .state = lk__moments_state,
    .update = adamax_update};
