/* softmax: y = e^x / the sum of e^x, along the last axis. */
#include "nn/layers.h"

static lk_status softmax_build(lk_build *build, const void *options, lk_tensor_type in,
                               lk_tensor_type *out)
{
    (void)options;
    LK_TRY(lk__build_check(build, in, 1));
    *out = in;
    return LK_OK;
}

static lk_status softmax_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                 lk_var *out)
{
    (void)pass;
    (void)layer;
    return LK_TRACE(lk_softmax(x, LK_LAST_AXIS, out));
}

static const lk_layer_sample samples[] = {
    {NULL, LK_DIMS(5), 0}, {NULL, LK_DIMS(2, 3), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_softmax = {
    .descriptor = {.name = "softmax", .summary = "y = e^x / the sum of e^x, along the last axis"},
    .reach = LK_REACH_POSITION,
    .build = softmax_build,
    .forward = softmax_forward,
    .samples = samples};
