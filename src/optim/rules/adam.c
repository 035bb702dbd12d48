/* adam: m and v are moving means of h and h^2, corrected for their start at 0:
 *
 *     m = beta1 m + (1 - beta1) h        v = beta2 v + (1 - beta2) h^2
 *     w = w - rate m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + eps),   t = step + 1
 */
#include "optim/rules.h"

static const lk_option options[] = {LK__MOMENTS_OPTIONS("0.001"), {0}};

static lk_status adam_update(const lk_update_call *call)
{
    lk__update u = lk__moments_update(call);
    return LK_TRACE(lk__update_run(call->dtype, LK__UPDATE_ADAM, &u, call->n));
}

const lk_update_rule lk__update_rule_adam = {
    .descriptor = {.name = "adam",
                   .summary = "w = w - rate m' / (sqrt(v') + eps), means of h "
                              "and h^2 corrected for their start",
                   .options = options,
                   .options_size = sizeof(lk__moments_options)},
    .state = lk__moments_state,
    .update = adam_update};
