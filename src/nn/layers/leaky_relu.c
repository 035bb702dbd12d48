/* leaky_relu: y = x < 0 ? slope * x : x. */
#include "nn/layers.h"

typedef struct leaky_relu_options {
    double slope;
} leaky_relu_options;

static const lk_option options[] = {{"slope", LK_OPTION_REAL, offsetof(leaky_relu_options, slope),
                                     .def = "0.01", .min = -1e30, .max = 1e30,
                                     .help = "for negative x"},
                                    {0}};

static lk_status leaky_relu_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                    lk_var *out)
{
    (void)pass;
    return LK_TRACE(lk_leaky_relu(x, ((const leaky_relu_options *)layer->options)->slope, out));
}

static const lk_layer_sample samples[] = {{NULL, LK_DIMS(5), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_leaky_relu = {.descriptor = {.name = "leaky_relu",
                                                      .summary = "y = x < 0 ? slope * x : x",
                                                      .options = options,
                                                      .options_size = sizeof(leaky_relu_options)},
                                       .reach = LK_REACH_ELEMENT,
                                       .build = lk__build_elementwise,
                                       .forward = leaky_relu_forward,
                                       .samples = samples};
