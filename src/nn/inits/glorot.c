/* glorot: uniform in +-scale sqrt(6 / (in + out)), or normal of the same variance; "node-normalised"
 * in neon. */
#include "nn/draws.h"

#include <math.h>

typedef struct glorot_options {
    double scale;
    int distribution; /* 0 uniform, 1 normal */
} glorot_options;

static const lk_option options[] = {{"scale", LK_OPTION_REAL, offsetof(glorot_options, scale),
                                     .def = "1", .max = 1e30, .help = "factor on all of it"},
                                    {"distribution", LK_OPTION_CHOICE,
                                     offsetof(glorot_options, distribution), .def = "uniform",
                                     .choices = "uniform normal", .help = "of the draws"},
                                    {0}};

static lk_status glorot_fill(const lk_init_call *call)
{
    const glorot_options *o = call->options;
    bool normal = o->distribution == 1;
    double nodes = (double)(call->fan_in + call->fan_out);
    if (nodes <= 0)
        nodes = 1;
    return LK_TRACE(lk__draw_scaled(call, normal, o->scale * sqrt((normal ? 2 : 6) / nodes)));
}

const lk_init lk__init_glorot = {
    .descriptor = {.name = "glorot",
                   .summary = "uniform in +-scale sqrt(6 / (in + out)), or normal of that variance",
                   .options = options,
                   .options_size = sizeof(glorot_options)},
    .fill = glorot_fill};
