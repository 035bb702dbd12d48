/* tanh: y = tanh x. */
#include "nn/layers.h"

static lk_status tanh_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    (void)pass;
    (void)layer;
    return LK_TRACE(lk_tanh(x, out));
}

static const lk_layer_sample samples[] = {{NULL, LK_DIMS(5), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_tanh = {.descriptor = {.name = "tanh", .summary = "y = tanh x"},
                                 .reach = LK_REACH_ELEMENT,
                                 .build = lk__build_elementwise,
                                 .forward = tanh_forward,
                                 .samples = samples,
                                 .act = LK_ACT_TANH};
