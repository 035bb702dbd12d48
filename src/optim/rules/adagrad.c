/* adagrad: v = v + h^2; w = w - rate h / (sqrt(v) + eps). */
#include "optim/optimizer.h"

typedef struct adagrad_options {
    lk_optimizer_options all;
    double start, eps;
} adagrad_options;

static const lk_option options[] = {
    LK_OPTIMIZER_OPTIONS(adagrad_options, "0.01"),
    {"start", LK_OPTION_REAL, offsetof(adagrad_options, start), .def = "0", .max = 1e30,
     .help = "what the sum of squares begins with"},
    {"eps", LK_OPTION_REAL, offsetof(adagrad_options, eps), .def = "1e-10", .max = 1,
     .flags = LK_OPTION_OPEN_MIN, .help = "added to the divisor, so that it is not 0"},
    {0}};

static lk_optimizer_state adagrad_state(const void *opt)
{
    const adagrad_options *o = opt;
    return (lk_optimizer_state){.slab = {"squares"}, .start = {o->start}};
}

static lk_status adagrad_update(const lk_update_call *call)
{
    const adagrad_options *o = call->options;
    lk__update u = lk__update_of(call);
    u.v = call->state[0];
    u.eps = o->eps;
    return LK_TRACE(lk__update_run(call->dtype, LK__UPDATE_ADAGRAD, &u, call->n));
}

const lk_update_rule lk__update_rule_adagrad = {
    .descriptor = {.name = "adagrad",
                   .summary = "w = w - rate h / (sqrt(v) + eps), v = v + h^2",
                   .options = options,
                   .options_size = sizeof(adagrad_options)},
    .state = adagrad_state,
    .update = adagrad_update};
