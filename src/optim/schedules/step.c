/* step: multiplied by `factor` after each `epochs` epochs. */
#include "optim/schedules.h"

#include <math.h>

typedef struct step_options {
    double epochs, factor;
    lk_option_reals at;
} step_options;

static const lk_option options[] = {{"epochs", LK_OPTION_REAL, offsetof(step_options, epochs),
                                     .def = "1", .max = 1e9, .flags = LK_OPTION_OPEN_MIN,
                                     .help = "from one drop to the next"},
                                    {"at", LK_OPTION_REALS, offsetof(step_options, at), .max = 1e9,
                                     .help = "drop after these epochs instead"},
                                    {"factor", LK_OPTION_REAL, offsetof(step_options, factor),
                                     .def = "0.1", .max = 1e9, .help = "of each drop"},
                                    {0}};

static double step_factor(const void *opt, const lk_schedule_point *at)
{
    const step_options *o = opt;
    double now = lk__epochs_passed(at), factor = 1;
    int64_t drops = o->at.n > 0 ? 0 : (int64_t)floor(now / o->epochs);
    for (int i = 0; i < o->at.n; i++)
        drops += now >= o->at.item[i];
    for (; drops > 0 && factor > 0; drops--)
        factor *= o->factor;
    return factor;
}

const lk_schedule lk__schedule_step = {
    .descriptor = {.name = "step",
                   .summary = "factor^n after n times `epochs` epochs",
                   .options = options,
                   .options_size = sizeof(step_options)},
    .factor = step_factor};
