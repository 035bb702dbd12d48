/* adamw: adam, but decay shrinks the parameter apart from the gradient: w = (1 - rate decay) w - ... */
#include "optim/rules.h"

static const lk_option options[] = {LK__MOMENTS_OPTIONS("0.001"), {0}};

static lk_status adamw_update(const lk_update_call *call)
{
    lk__update u = lk__moments_update(call);
    u.keep = 1 - call->rate * u.decay;
    u.decay = 0;
    return LK_TRACE(lk__update_run(call->dtype, LK__UPDATE_ADAM, &u, call->n));
}

const lk_update_rule lk__update_rule_adamw = {
    .descriptor =
        {.name = "adamw",
         .summary = "adam with decay apart: w = (1 - rate decay) w - rate m' / (sqrt(v') + eps)",
         .options = options,
         .options_size = sizeof(lk__moments_options)},
    .state = lk__moments_state,
    .update = adamw_update};
