/* layer_norm: (x - mean) / sqrt(variance + eps) * gamma + beta over the last axes of a sample.  Over one
 * axis, the channels of each position, it runs by tiles, and over all of a sample, with the parameters
 * of each rank's positions. */
#include "nn/layers.h"

typedef struct norm_options {
    int64_t axes;
    double eps;
} norm_options;

static const lk_option options[] = {
    {"axes", LK_OPTION_INT, offsetof(norm_options, axes), .value = "N", .def = "1", .min = 1,
     .max = LK_MAX_NDIM - 1, .help = "how many of the last axes are normalised over"},
    {"eps", LK_OPTION_REAL, offsetof(norm_options, eps), .def = "1e-5", .max = 1,
     .flags = LK_OPTION_OPEN_MIN, .help = "added to the variance"},
    {0}};

/* Over all of a sample: its positions, which tiles may cut, have their own parameters. */
static void whole_build(lk_build *build, int axes)
{
    lk_window w = {.ndim = axes};
    for (int d = 0; d < axes; d++)
        w.kernel[d] = 1;
    lk_build_window(build, LK_TILE_SAMPLE, &w);
    lk_build_reach(build, LK_REACH_SAMPLE);
    lk_build_summed(build, LK_SUMMED_IN);
}

static lk_status norm_build(lk_build *build, const void *opt, lk_tensor_type in,
                            lk_tensor_type *out)
{
    const norm_options *o = opt;
    lk_shape shape = {.ndim = (int)o->axes};
    LK_TRY(lk__build_check(build, in, (int)o->axes));
    bool whole = shape.ndim > 1 && shape.ndim == in.shape.ndim;
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = in.shape.dim[in.shape.ndim - shape.ndim + i];
    lk_param gamma = {.name = "gamma",
                      .shape = shape,
                      .per_position = whole,
                      .by_tile = shape.ndim == 1},
             beta = gamma;
    beta.name = "beta";
    LK_TRY(lk__build_constant(build, gamma, true));
    LK_TRY(lk__build_constant(build, beta, false));
    if (o->axes == 1) {
        lk_build_reach(build, LK_REACH_POSITION);
        lk_build_summed(build, LK_SUMMED_IN);
    }
    if (whole && shape.ndim - 1 <= LK_TILE_AXES)
        whole_build(build, shape.ndim - 1);
    *out = in;
    return LK_OK;
}

static lk_status norm_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    const norm_options *o = layer->options;
    lk_layer_norm_attr attr = {.axes = (int)o->axes, .eps = o->eps};
    lk_var gamma = lk_pass_param(pass, layer, 0), beta = lk_pass_param(pass, layer, 1);
    const lk_tile *tile = lk_pass_tile(pass, layer);
    if (tile) {
        LK_TRY(lk_dist_tile_layer_norm(tile, x, gamma, beta, &attr, layer->name, out));
        LK_TRY(lk__layer_act(pass, out));
    } else {
        attr.act = lk_pass_fused_act(pass);
        LK_TRY(lk_layer_norm(x, gamma, beta, &attr, out));
    }
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {NULL, LK_DIMS(5), 0}, {"axes=2", LK_DIMS(2, 3), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_layer_norm = {
    .descriptor = {.name = "layer_norm",
                   .summary = "(x - mean) / sqrt(variance + eps) * gamma + beta over the last axes",
                   .options = options,
                   .options_size = sizeof(norm_options)},
    .flags = LK_LAYER_FUSES_ACT_AFTER,
    .build = norm_build,
    .forward = norm_forward,
    .samples = samples};
