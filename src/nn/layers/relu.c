/* relu: y = x < 0 ? 0 : x. */
#include "nn/layers.h"

static lk_status relu_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    (void)pass;
    (void)layer;
    return LK_TRACE(lk_relu(x, out));
}

static const lk_layer_sample samples[] = {{NULL, LK_DIMS(5), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_relu = {.descriptor = {.name = "relu", .summary = "y = x < 0 ? 0 : x"},
                                 .reach = LK_REACH_ELEMENT,
                                 .build = lk__build_elementwise,
                                 .forward = relu_forward,
                                 .samples = samples,
                                 .act = LK_ACT_RELU};
