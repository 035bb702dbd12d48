/* constant: every element is the value. */
#include <lockstep/nn.h>

typedef struct constant_options {
    double value;
} constant_options;

static const lk_option options[] = {{"value", LK_OPTION_REAL, offsetof(constant_options, value),
                                     .def = "0", .help = "of every element"},
                                    {0}};

static lk_status constant_fill(const lk_init_call *call)
{
    const constant_options *o = call->options;
    for (int64_t i = 0; i < call->elements.n; i++)
        call->out[i] = o->value;
    return LK_OK;
}

const lk_init lk__init_constant = {.descriptor = {.name = "constant",
                                                  .summary = "every element is the value",
                                                  .options = options,
                                                  .options_size = sizeof(constant_options)},
                                   .fill = constant_fill};
