/* local_conv: convolution whose every position has a filter of its own; neon's local filtering. */
#include "nn/layers.h"

typedef struct local_options {
    int64_t filters;
    lk__window_options window;
    bool unit_norm;
    lk_config init;
} local_options;

static const lk_option options[] = {
    {"filters", LK_OPTION_INT, offsetof(local_options, filters), .value = "N", .min = 1, .max = 1e9,
     .flags = LK_OPTION_REQUIRED, .help = "channels of the output"},
    LK__WINDOW_OPTIONS(local_options, "kernel", "1"),
    {"unit_norm", LK_OPTION_FLAG, offsetof(local_options, unit_norm), .def = "false",
     .help = "behind each update the weights of each position and filter are divided by their "
             "norm; what they begin with is not"},
    {"init", LK_OPTION_CONFIG, offsetof(local_options, init), .def = "glorot",
     .registry = &lk_registry_init, .help = "what the weight begins with"},
    {0}};

static lk_status local_build(lk_build *build, const void *opt, lk_tensor_type in,
                             lk_tensor_type *out)
{
    const local_options *o = opt;
    lk_window w;
    int64_t positions[3];
    lk_conv_attr *attr = NULL;
    LK_TRY(lk__build_check(build, in, 2));
    LK_TRY(lk__layer_window(&o->window, in.shape, 1, &w, positions));
    int64_t channels = in.shape.dim[w.ndim], taps = 1;
    LK_CHECK(2 * w.ndim + 2 <= LK_MAX_NDIM, LK_ESHAPE, "at most 3 spatial axes");
    lk_param weight = {.name = "weight", .shape = {.ndim = 2 * w.ndim + 2}, .init = &o->init};
    *out = in;
    for (int i = 0; i < w.ndim; i++) {
        weight.shape.dim[i] = out->shape.dim[i] = positions[i];
        weight.shape.dim[w.ndim + i] = w.kernel[i];
        taps *= w.kernel[i];
    }
    weight.shape.dim[weight.shape.ndim - 2] = channels;
    weight.shape.dim[weight.shape.ndim - 1] = out->shape.dim[w.ndim] = o->filters;
    weight.fan_in = taps * channels;
    weight.fan_out = taps * o->filters;
    weight.per_position = true;
    if (o->unit_norm)
        weight.unit = (lk_cut){taps * channels, o->filters};
    LK_TRY(lk_build_param(build, &weight));
    LK_TRY(lk_build_data(build, sizeof *attr, &attr));
    lk__window_conv(&w, 1, attr);
    lk_build_window(build, LK_TILE_LOCAL_CONV, &w);
    return LK_OK;
}

static lk_status local_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                               lk_var *out)
{
    lk_var w = lk_pass_param(pass, layer, 0);
    const lk_tile *tile = lk_pass_tile(pass, layer);
    if (tile)
        LK_TRY(lk_dist_tile_local_conv(tile, x, w, layer->name, out));
    else
        LK_TRY(lk_local_conv(x, w, layer->data, out));
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {"filters=2 kernel=2", LK_DIMS(3, 4, 2), 0},
    {"filters=1 kernel=3 stride=2 padding=1", LK_DIMS(5, 3), 0},
    {"filters=2 kernel=2 unit_norm=true", LK_DIMS(3, 3, 1), 0},
    {.shape = {.ndim = -1}}};

const lk_layer lk__layer_local_conv = {
    .descriptor = {.name = "local_conv",
                   .summary = "convolution whose every position has a filter of its own",
                   .options = options,
                   .options_size = sizeof(local_options)},
    .reach = LK_REACH_WINDOW,
    .build = local_build,
    .forward = local_forward,
    .samples = samples};
