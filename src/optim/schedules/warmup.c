/* warmup: in a straight line from `from` to 1 over the first epochs, then another schedule, which
 * sees the training's own time. */
#include "optim/schedules.h"

typedef struct warmup_options {
    double epochs, from;
    lk_config then;
} warmup_options;

static const lk_option options[] = {
    {"epochs", LK_OPTION_REAL, offsetof(warmup_options, epochs), .def = "1", .max = 1e9,
     .flags = LK_OPTION_OPEN_MIN, .help = "until the factor is 1"},
    {"from", LK_OPTION_REAL, offsetof(warmup_options, from), .def = "0", .max = 1e9,
     .help = "the factor at the beginning"},
    {"then", LK_OPTION_CONFIG, offsetof(warmup_options, then), .registry = &lk_registry_schedule,
     .help = "schedule whose factor is multiplied to it"},
    {0}};

static double warmup_factor(const void *opt, const lk_schedule_point *at)
{
    const warmup_options *o = opt;
    double share = lk__share_passed(at, 0, o->epochs);
    return (o->from + share * (1 - o->from)) * lk_schedule_factor(&o->then, at);
}

static bool warmup_uses_end(const void *opt)
{
    return lk_schedule_uses_end(&((const warmup_options *)opt)->then);
}

const lk_schedule lk__schedule_warmup = {
    .descriptor = {.name = "warmup",
                   .summary = "a straight line from `from` to 1, then another schedule",
                   .options = options,
                   .options_size = sizeof(warmup_options)},
    .factor = warmup_factor,
    .uses_end = warmup_uses_end};
