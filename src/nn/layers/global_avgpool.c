/* global_avgpool: the mean over all spatial axes: [in..., channels] gives [channels]. */
#include "nn/layers.h"

static lk_status global_build(lk_build *build, const void *options, lk_tensor_type in,
                              lk_tensor_type *out)
{
    (void)options;
    LK_TRY(lk__build_check(build, in, 2));
    *out = (lk_tensor_type){in.dtype, LK_SHAPE(in.shape.dim[in.shape.ndim - 1])};
    lk_build_summed(build, LK_SUMMED_IN);
    lk_build_features(build, LK_FEATURES_EACH);
    return LK_OK;
}

static lk_status global_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                lk_var *out)
{
    lk_axes axes = {.n = layer->in.shape.ndim - 1};
    const lk_tile *tile = lk_pass_tile(pass, layer);
    if (tile) {
        return LK_TRACE(lk_dist_tile_mean(tile, x, pass->parts->samples, layer->name, out));
    }
    for (int i = 0; i < axes.n; i++)
        axes.axis[i] = i + 1;
    return LK_TRACE(lk_mean(x, &axes, out));
}

static const lk_layer_sample samples[] = {
    {NULL, LK_DIMS(3, 4, 2), 0}, {NULL, LK_DIMS(5, 3), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_global_avgpool = {
    .descriptor = {.name = "global_avgpool", .summary = "the mean over all spatial axes"},
    .build = global_build,
    .forward = global_forward,
    .samples = samples};
