/* inverse: 1 / (1 + decay * step), Keras's "decay". */
#include "optim/schedules.h"

typedef struct inverse_options {
    double decay;
} inverse_options;

static const lk_option options[] = {{"decay", LK_OPTION_REAL, offsetof(inverse_options, decay),
                                     .def = "1e-6", .max = 1e9, .help = "for each step"},
                                    {0}};

static double inverse_factor(const void *opt, const lk_schedule_point *at)
{
    const inverse_options *o = opt;
    return 1 / (1 + o->decay * (double)at->step);
}

const lk_schedule lk__schedule_inverse = {.descriptor = {.name = "inverse",
                                                         .summary = "1 / (1 + decay * step)",
                                                         .options = options,
                                                         .options_size = sizeof(inverse_options)},
                                          .factor = inverse_factor};
