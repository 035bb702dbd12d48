/* he: normal with deviation scale sqrt(2 / in), or uniform of the same variance. */
#include "nn/draws.h"

#include <math.h>

typedef struct he_options {
    double scale;
    int distribution; /* 0 uniform, 1 normal */
} he_options;

static const lk_option options[] = {{"scale", LK_OPTION_REAL, offsetof(he_options, scale),
                                     .def = "1", .max = 1e30, .help = "factor on all of it"},
                                    {"distribution", LK_OPTION_CHOICE,
                                     offsetof(he_options, distribution), .def = "normal",
                                     .choices = "uniform normal", .help = "of the draws"},
                                    {0}};

static lk_status he_fill(const lk_init_call *call)
{
    const he_options *o = call->options;
    bool normal = o->distribution == 1;
    double nodes = (double)call->fan_in;
    if (nodes <= 0)
        nodes = 1;
    return LK_TRACE(lk__draw_scaled(call, normal, o->scale * sqrt((normal ? 2 : 6) / nodes)));
}

const lk_init lk__init_he = {
    .descriptor =
        {.name = "he",
         .summary = "normal with deviation scale sqrt(2 / in), or uniform of that variance",
         .options = options,
         .options_size = sizeof(he_options)},
    .fill = he_fill};
