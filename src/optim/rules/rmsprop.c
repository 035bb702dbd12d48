/* rmsprop: v = rho v + (1 - rho) h^2; w = w - rate h / (sqrt(v) + eps); with momentum
 * m = momentum m + h / (sqrt(v) + eps); w = w - rate m. */
#include "optim/optimizer.h"

typedef struct rmsprop_options {
    lk_optimizer_options all;
    double rho, eps, momentum;
} rmsprop_options;

static const lk_option options[] = {
    LK_OPTIMIZER_OPTIONS(rmsprop_options, "0.001"),
    {"rho", LK_OPTION_REAL, offsetof(rmsprop_options, rho), .def = "0.9", .max = 1,
     .flags = LK_OPTION_OPEN_MAX, .help = "share of the last mean of squares that is kept"},
    {"eps", LK_OPTION_REAL, offsetof(rmsprop_options, eps), .def = "1e-7", .max = 1,
     .flags = LK_OPTION_OPEN_MIN, .help = "added to the divisor, so that it is not 0"},
    {"momentum", LK_OPTION_REAL, offsetof(rmsprop_options, momentum), .def = "0", .max = 1,
     .flags = LK_OPTION_OPEN_MAX, .help = "share of the last step that is kept"},
    {0}};

static lk_optimizer_state rmsprop_state(const void *opt)
{
    const rmsprop_options *o = opt;
    return (lk_optimizer_state){.slab = {"v", o->momentum > 0 ? "momentum" : NULL}};
}

static lk_status rmsprop_update(const lk_update_call *call)
{
    const rmsprop_options *o = call->options;
    lk__update u = lk__update_of(call);
    u.v = call->state[0];
    u.m = call->state[1];
    u.b2 = o->rho;
    u.c2 = 1 - o->rho;
    u.eps = o->eps;
    u.mu = o->momentum;
    return LK_TRACE(lk__update_run(
        call->dtype, o->momentum > 0 ? LK__UPDATE_RMSPROP_MOMENTUM : LK__UPDATE_RMSPROP, &u,
        call->n));
}

const lk_update_rule lk__update_rule_rmsprop = {
    .descriptor = {.name = "rmsprop",
                   .summary = "w = w - rate h / (sqrt(v) + eps), v = rho v + (1 - rho) h^2",
                   .options = options,
                   .options_size = sizeof(rmsprop_options)},
    .state = rmsprop_state,
    .update = rmsprop_update};
