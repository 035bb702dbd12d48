/* conv: convolution over 1 to 3 spatial axes, channels last: [in..., channels] gives [out...,
 * filters], out = floor((in + padding - dilation (kernel - 1) - 1) / stride) + 1. */
#include "nn/layers.h"

#include <lockstep/extra/map.h>

typedef struct conv_options {
    int64_t filters, groups;
    lk__window_options window;
    bool bias;
    int algorithm;
    lk_config init, bias_init;
} conv_options;

static const lk_option options[] = {
    {"filters", LK_OPTION_INT, offsetof(conv_options, filters), .value = "N", .min = 1, .max = 1e9,
     .flags = LK_OPTION_REQUIRED, .help = "channels of the output"},
    LK__WINDOW_OPTIONS(conv_options, "kernel", "1"),
    {"dilation", LK_OPTION_INTS, offsetof(conv_options, window.dilation), .min = 1, .max = 1e6,
     .help = "positions from one tap of the kernel to the next; 1 by default"},
    {"groups", LK_OPTION_INT, offsetof(conv_options, groups), .value = "N", .def = "1", .min = 1,
     .max = 1e9, .help = "channels are cut into this many groups that do not mix"},
    {"bias", LK_OPTION_FLAG, offsetof(conv_options, bias), .def = "true",
     .help = "add a vector that is learned too"},
    LK__ALGORITHM_OPTION(conv_options),
    {"init", LK_OPTION_CONFIG, offsetof(conv_options, init), .def = "glorot",
     .registry = &lk_registry_init, .help = "what the weight begins with"},
    {"bias_init", LK_OPTION_CONFIG, offsetof(conv_options, bias_init), .def = "constant",
     .registry = &lk_registry_init, .help = "what the bias begins with"},
    {0}};

static lk_status conv_build(lk_build *build, const void *opt, lk_tensor_type in,
                            lk_tensor_type *out)
{
    const conv_options *o = opt;
    lk_window w;
    int64_t positions[3];
    lk_conv_attr *attr = NULL;
    LK_TRY(lk__build_check(build, in, 2));
    LK_TRY(lk__layer_window(&o->window, in.shape, 1, &w, positions));
    int64_t channels = in.shape.dim[w.ndim], taps = 1;
    LK_CHECK(channels % o->groups == 0 && o->filters % o->groups == 0, LK_ESHAPE,
             "%lld groups do not divide %lld channels and %lld filters", (long long)o->groups,
             (long long)channels, (long long)o->filters);
    lk_param weight = {.name = "weight", .shape = {.ndim = w.ndim + 2}, .init = &o->init};
    *out = in;
    for (int i = 0; i < w.ndim; i++) {
        weight.shape.dim[i] = w.kernel[i];
        taps *= w.kernel[i];
        out->shape.dim[i] = positions[i];
    }
    weight.shape.dim[w.ndim] = channels / o->groups;
    weight.shape.dim[w.ndim + 1] = out->shape.dim[w.ndim] = o->filters;
    weight.fan_in = taps * (channels / o->groups);
    weight.fan_out = taps * (o->filters / o->groups);
    if (lk__groups_cut(build, o->groups, o->filters, channels))
        weight.cut = (lk_cut){o->filters, 1};
    weight.by_tile = true;
    LK_TRY(lk_build_param(build, &weight));
    if (o->bias)
        LK_TRY(lk_build_param(build, &(lk_param){.name = "bias",
                                                 .by_tile = true,
                                                 .shape = LK_SHAPE(o->filters),
                                                 .init = &o->bias_init,
                                                 .fan_in = weight.fan_in,
                                                 .fan_out = weight.fan_out,
                                                 .cut = weight.cut}));
    LK_TRY(lk_build_data(build, sizeof *attr, &attr));
    lk__window_conv(&w, o->groups, attr);
    LK_TRY(lk__layer_algorithm(o->algorithm, w.ndim, w.kernel, attr));
    w.grid = o->algorithm == LK_CONV_WINOGRAD ? 4 : 1;
    lk_build_window(build, LK_TILE_CONV, &w);
    lk_build_summed(build, LK_SUMMED_OUT);
    if (weight.cut.n > 0) /* of groups, each block has whole ones, of channels and of filters */
        lk_build_features(build, o->groups > 1 ? LK_FEATURES_EACH : LK_FEATURES_OUT);
    return LK_OK;
}

/* A part of the filters. */
static lk_status conv_split(const lk_pass *pass, const lk_layer_instance *layer,
                            const lk_feature_part *f, lk_var x, lk_var *out)
{
    lk_var w = lk_pass_param(pass, layer, 0);
    lk_var b = layer->n_params > 1 ? lk_pass_param(pass, layer, 1) : LK_NO_VAR;
    const lk_tile *tile = lk_pass_tile(pass, layer);
    int last = layer->in.shape.ndim - 1;
    lk_feature_conv_attr attr = {.conv = *(const lk_conv_attr *)layer->data,
                                 .sum = f->sum,
                                 .channels = layer->in.shape.dim[last],
                                 .filters = layer->out.shape.dim[last]};
    attr.conv.act = lk_pass_fused_act(pass);
    if (tile)
        LK_TRY(lk_dist_tile_feature_conv(tile, f->split, &attr, x, w, b, layer->name, out));
    else
        LK_TRY(lk_dist_feature_conv(f->split, &attr, x, w, b, layer->name, out));
    return LK_OK;
}

static lk_status conv_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    lk_var w = lk_pass_param(pass, layer, 0);
    lk_var b = layer->n_params > 1 ? lk_pass_param(pass, layer, 1) : LK_NO_VAR;
    const lk_tile *tile = lk_pass_tile(pass, layer);
    const lk_feature_part *f = lk_pass_features(pass, layer);
    if (f && f->kind != LK_FEATURES_WHOLE)
        return conv_split(pass, layer, f, x, out);
    if (tile) {
        LK_TRY(lk_dist_tile_conv(tile, x, w, b, layer->data, lk_pass_fused_act(pass), layer->name,
                                 out));
    } else {
        lk_conv_attr attr = *(const lk_conv_attr *)layer->data;
        attr.act = lk_pass_fused_act(pass);
        LK_TRY(lk_conv(x, w, b, &attr, out));
    }
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {"filters=3 kernel=3 padding=1", LK_DIMS(4, 5, 2), 0},
    {"filters=2 kernel=2,3 stride=2,1 bias=false", LK_DIMS(4, 5, 1), 0},
    {"filters=4 kernel=3 dilation=2 groups=2 pad=same", LK_DIMS(7, 2), 0},
    {"filters=2 kernel=2", LK_DIMS(3, 3, 3, 1), 0},
    {"filters=3 kernel=3 padding=1 algorithm=winograd", LK_DIMS(5, 6, 2), 0},
    {.shape = {.ndim = -1}}};

const lk_layer lk__layer_conv = {
    .descriptor = {.name = "conv",
                   .summary = "convolution over 1 to 3 spatial axes, channels last",
                   .options = options,
                   .options_size = sizeof(conv_options)},
    .flags = LK_LAYER_FUSES_ACT_AFTER,
    .reach = LK_REACH_WINDOW,
    .build = conv_build,
    .forward = conv_forward,
    .samples = samples};
