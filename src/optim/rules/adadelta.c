/* adadelta: steps as large as steps were:
 *
 *     v = rho v + (1 - rho) h^2       d = h sqrt(m + eps) / sqrt(v + eps)
 *     m = rho m + (1 - rho) d^2       w = w - rate d
 */
#include "optim/optimizer.h"

typedef struct adadelta_options {
    lk_optimizer_options all;
    double rho, eps;
} adadelta_options;

static const lk_option options[] = {
    LK_OPTIMIZER_OPTIONS(adadelta_options, "1"),
    {"rho", LK_OPTION_REAL, offsetof(adadelta_options, rho), .def = "0.95", .max = 1,
     .flags = LK_OPTION_OPEN_MAX, .help = "share of the last means of squares that is kept"},
    {"eps", LK_OPTION_REAL, offsetof(adadelta_options, eps), .def = "1e-8", .max = 1,
     .flags = LK_OPTION_OPEN_MIN, .help = "added to both means, so that steps begin"},
    {0}};

static lk_optimizer_state adadelta_state(const void *opt)
{
    (void)opt;
    return (lk_optimizer_state){.slab = {"steps", "squares"}};
}

static lk_status adadelta_update(const lk_update_call *call)
{
    const adadelta_options *o = call->options;
    lk__update u = lk__update_of(call);
    u.b2 = o->rho;
    u.c2 = 1 - o->rho;
    u.eps = o->eps;
    return LK_TRACE(lk__update_run(call->dtype, LK__UPDATE_ADADELTA, &u, call->n));
}

const lk_update_rule lk__update_rule_adadelta = {
    .descriptor = {.name = "adadelta",
                   .summary = "w = w - rate d, d = h sqrt(mean of d^2) / sqrt(mean of h^2)",
                   .options = options,
                   .options_size = sizeof(adadelta_options)},
    .state = adadelta_state,
    .update = adadelta_update};
