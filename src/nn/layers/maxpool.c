/* maxpool: the largest of each window, over 1 to 3 spatial axes, channels last. */
#include "nn/layers.h"

static const lk_option options[] = {LK__WINDOW_OPTIONS(lk__pool_options, "size", "the size"), {0}};

static lk_status maxpool_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                 lk_var *out)
{
    const lk_tile *tile = lk_pass_tile(pass, layer);
    bool relu = lk_pass_has_fused_relu(pass);
    if (tile)
        LK_TRY(lk_dist_tile_pool(tile, LK_POOL_MAX, x, layer->data, relu, layer->name, out));
    else
        LK_TRY(relu ? lk_relu_max_pool(x, layer->data, out)
                    : lk_max_pool(x, layer->data, out, NULL));
    return LK_OK;
}

static const lk_layer_sample samples[] = {{"size=2", LK_DIMS(4, 6, 2), 0},
                                          {"size=3 stride=1 padding=1", LK_DIMS(4, 3), 0},
                                          {"size=2,3 stride=2,1", LK_DIMS(5, 4, 1), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_maxpool = {.descriptor = {.name = "maxpool",
                                                   .summary = "the largest of each window",
                                                   .options = options,
                                                   .options_size = sizeof(lk__pool_options)},
                                    .flags = LK_LAYER_FUSES_RELU_BEFORE,
                                    .reach = LK_REACH_WINDOW,
                                    .build = lk__pool_build,
                                    .forward = maxpool_forward,
                                    .samples = samples};
