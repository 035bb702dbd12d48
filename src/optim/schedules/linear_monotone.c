/* linear_monotone: neon's schedule of the momentum: `initial` until epoch `start`, `saturated` from
 * epoch `saturate` on, in a straight line between, changing from epoch to epoch.  (neon itself gives
 * `saturated` before `start` too.) */
#include "optim/schedules.h"

typedef struct monotone_options {
    double initial, saturated, start, saturate;
} monotone_options;

static const lk_option options[] = {
    {"initial", LK_OPTION_REAL, offsetof(monotone_options, initial), .def = "1", .max = 1e9,
     .help = "value until the start"},
    {"saturated", LK_OPTION_REAL, offsetof(monotone_options, saturated), .def = "1", .max = 1e9,
     .help = "value at the end"},
    {"start", LK_OPTION_REAL, offsetof(monotone_options, start), .def = "0", .max = 1e9,
     .help = "epoch at which it begins to change"},
    {"saturate", LK_OPTION_REAL, offsetof(monotone_options, saturate), .def = "1", .max = 1e9,
     .help = "epoch at which it has changed"},
    {0}};

static lk_status monotone_check(const void *opt)
{
    const monotone_options *o = opt;
    LK_CHECK(o->start <= o->saturate, LK_EINVAL, "linear_monotone: start %g is after saturate %g",
             o->start, o->saturate);
    return LK_OK;
}

static double monotone_factor(const void *opt, const lk_schedule_point *at)
{
    const monotone_options *o = opt;
    lk_schedule_point epoch = {.step = at->step / at->steps_per_epoch, .steps_per_epoch = 1};
    double share = lk__share_passed(&epoch, o->start, o->saturate);
    return (1 - share) * o->initial + share * o->saturated;
}

const lk_schedule lk__schedule_linear_monotone = {
    .descriptor = {.name = "linear_monotone",
                   .summary = "from `initial` to `saturated` in equal steps, epoch by epoch",
                   .options = options,
                   .options_size = sizeof(monotone_options)},
    .check = monotone_check,
    .factor = monotone_factor};
