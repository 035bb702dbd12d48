/* uniform: low + (high - low) u, u uniform in [0, 1). */
#include <lockstep/nn.h>

typedef struct uniform_options {
    double low, high;
} uniform_options;

static const lk_option options[] = {{"low", LK_OPTION_REAL, offsetof(uniform_options, low),
                                     .def = "-0.1", .help = "no element is smaller"},
                                    {"high", LK_OPTION_REAL, offsetof(uniform_options, high),
                                     .def = "0.1",
                                     .help = "all elements are smaller, up to rounding"},
                                    {0}};

static lk_status uniform_fill(const lk_init_call *call)
{
    const uniform_options *o = call->options;
    LK_CHECK(o->low <= o->high, LK_EINVAL, "uniform: low %g is above high %g", o->low, o->high);
    LK_TRY(lk_rng_uniform_f64(call->stream, (lk_rng_at){.element = call->elements.first},
                              call->elements.n, call->out));
    for (int64_t i = 0; i < call->elements.n; i++)
        call->out[i] = o->low + (o->high - o->low) * call->out[i];
    return LK_OK;
}

const lk_init lk__init_uniform = {.descriptor = {.name = "uniform",
                                                 .summary = "uniform in [low, high)",
                                                 .options = options,
                                                 .options_size = sizeof(uniform_options)},
                                  .fill = uniform_fill};
