/* sgd: w = w - rate * h; with momentum m = momentum * m + h; w = w - rate * m, and with Nesterov's
 * w = w - rate * (h + momentum * m). */
#include "optim/optimizer.h"

typedef struct sgd_options {
    lk_optimizer_options all;
    double momentum;
    lk_config momentum_schedule;
    bool nesterov;
} sgd_options;

static const lk_option options[] = {
    LK_OPTIMIZER_OPTIONS(sgd_options, "0.01"),
    {"momentum", LK_OPTION_REAL, offsetof(sgd_options, momentum), .def = "0", .max = 1,
     .flags = LK_OPTION_OPEN_MAX, .help = "share of the last step that is kept"},
    {"momentum_schedule", LK_OPTION_CONFIG, offsetof(sgd_options, momentum_schedule),
     .registry = &lk_registry_schedule, .help = "factor on the momentum that changes with time"},
    {"nesterov", LK_OPTION_FLAG, offsetof(sgd_options, nesterov), .def = "false",
     .help = "look ahead by the momentum"},
    {0}};

static lk_status sgd_check(const void *opt)
{
    const sgd_options *o = opt;
    const lk_schedule *s = (const lk_schedule *)(const void *)o->momentum_schedule.descriptor;
    LK_CHECK(!o->nesterov || o->momentum > 0, LK_EINVAL,
             "sgd: nesterov needs a momentum, which is 0");
    if (s && s->check)
        LK_TRY(s->check(o->momentum_schedule.options));
    return LK_OK;
}

static lk_optimizer_state sgd_state(const void *opt)
{
    const sgd_options *o = opt;
    return (lk_optimizer_state){.slab = {o->momentum > 0 ? "momentum" : NULL}};
}

static lk_status sgd_update(const lk_update_call *call)
{
    const sgd_options *o = call->options;
    lk__update u = lk__update_of(call);
    u.mu = o->momentum * lk_schedule_factor(&o->momentum_schedule, &call->at);
    lk__update_rule rule = o->momentum <= 0 ? LK__UPDATE_SGD
                           : o->nesterov    ? LK__UPDATE_NESTEROV
                                            : LK__UPDATE_MOMENTUM;
    return LK_TRACE(lk__update_run(call->dtype, rule, &u, call->n));
}

const lk_update_rule lk__update_rule_sgd = {
    .descriptor =
        {.name = "sgd",
         .summary = "w = w - rate * h, with momentum m = momentum * m + h; w = w - rate * m",
         .options = options,
         .options_size = sizeof(sgd_options)},
    .check = sgd_check,
    .state = sgd_state,
    .update = sgd_update};
