/* sigmoid: y = 1 / (1 + e^-x). */
#include "nn/layers.h"

static lk_status sigmoid_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                 lk_var *out)
{
    (void)pass;
    (void)layer;
    return LK_TRACE(lk_sigmoid(x, out));
}

static const lk_layer_sample samples[] = {{NULL, LK_DIMS(5), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_sigmoid = {
    .descriptor = {.name = "sigmoid", .summary = "y = 1 / (1 + e^-x)"},
    .reach = LK_REACH_ELEMENT,
    .build = lk__build_elementwise,
    .forward = sigmoid_forward,
    .samples = samples,
    .act = LK_ACT_SIGMOID};
