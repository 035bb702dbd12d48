/* gelu: y = x/2 (1 + erf(x / sqrt 2)). */
#include "nn/layers.h"

static lk_status gelu_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    (void)pass;
    (void)layer;
    return LK_TRACE(lk_gelu(x, out));
}

static const lk_layer_sample samples[] = {{NULL, LK_DIMS(5), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_gelu = {
    .descriptor = {.name = "gelu", .summary = "y = x/2 (1 + erf(x / sqrt 2))"},
    .reach = LK_REACH_ELEMENT,
    .build = lk__build_elementwise,
    .forward = gelu_forward,
    .samples = samples};
