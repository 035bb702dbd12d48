/* linear: in a straight line from `from` to `to` over the epochs [start, end]. */
#include "optim/schedules.h"

typedef struct linear_options {
    double from, to, start, end;
} linear_options;

static const lk_option options[] = {
    {"from", LK_OPTION_REAL, offsetof(linear_options, from), .def = "1", .max = 1e9,
     .help = "factor until the start"},
    {"to", LK_OPTION_REAL, offsetof(linear_options, to), .def = "0", .max = 1e9,
     .help = "factor from the end on"},
    {"start", LK_OPTION_REAL, offsetof(linear_options, start), .def = "0", .max = 1e9,
     .help = "epoch at which it begins to change"},
    {"end", LK_OPTION_REAL, offsetof(linear_options, end), .def = "0", .max = 1e9,
     .help = "epoch at which it has changed; 0: the last"},
    {0}};

static double linear_factor(const void *opt, const lk_schedule_point *at)
{
    const linear_options *o = opt;
    double share = lk__share_passed(at, o->start, lk__end_or_all(o->end, at));
    return o->from + share * (o->to - o->from);
}

static bool linear_uses_end(const void *opt)
{
    return ((const linear_options *)opt)->end == 0;
}

const lk_schedule lk__schedule_linear = {
    .descriptor = {.name = "linear",
                   .summary = "a straight line from `from` to `to` over the epochs",
                   .options = options,
                   .options_size = sizeof(linear_options)},
    .factor = linear_factor,
    .uses_end = linear_uses_end};
