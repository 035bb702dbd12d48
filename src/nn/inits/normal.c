/* normal: mean + deviation z, z from the normal distribution. */
#include "nn/draws.h"

typedef struct normal_options {
    double mean, deviation;
} normal_options;

static const lk_option options[] = {{"mean", LK_OPTION_REAL, offsetof(normal_options, mean),
                                     .def = "0", .help = "of the distribution"},
                                    {"deviation", LK_OPTION_REAL,
                                     offsetof(normal_options, deviation), .def = "0.01",
                                     .max = 1e30, .help = "standard deviation of the distribution"},
                                    {0}};

static lk_status normal_fill(const lk_init_call *call)
{
    const normal_options *o = call->options;
    LK_TRY(lk__draw_scaled(call, true, o->deviation));
    for (int64_t i = 0; i < call->elements.n; i++)
        call->out[i] += o->mean;
    return LK_OK;
}

const lk_init lk__init_normal = {.descriptor = {.name = "normal",
                                                .summary = "normal with this mean and deviation",
                                                .options = options,
                                                .options_size = sizeof(normal_options)},
                                 .fill = normal_fill};
