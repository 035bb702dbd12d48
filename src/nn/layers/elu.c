/* elu: y = x < 0 ? alpha * (e^x - 1) : x. */
#include "nn/layers.h"

typedef struct elu_options {
    double alpha;
} elu_options;

static const lk_option options[] = {{"alpha", LK_OPTION_REAL, offsetof(elu_options, alpha),
                                     .def = "1", .min = -1e30, .max = 1e30,
                                     .help = "minus the limit for x to -infinity"},
                                    {0}};

static lk_status elu_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    (void)pass;
    return LK_TRACE(lk_elu(x, ((const elu_options *)layer->options)->alpha, out));
}

static const lk_layer_sample samples[] = {{NULL, LK_DIMS(5), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_elu = {.descriptor = {.name = "elu",
                                               .summary = "y = x < 0 ? alpha * (e^x - 1) : x",
                                               .options = options,
                                               .options_size = sizeof(elu_options)},
                                .reach = LK_REACH_ELEMENT,
                                .build = lk__build_elementwise,
                                .forward = elu_forward,
                                .samples = samples};
