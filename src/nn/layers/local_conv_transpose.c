/* local_conv_transpose: local defiltering, the transpose of local_conv: [positions..., channels] gives
 * [size..., filters].  Its weight is that of the local_conv which makes this input of that output,
 * [positions..., kernel..., filters, channels], so that `tie` can share it; its window is that one's, too.
 *
 * Without `size` the output is the smallest that has as many windows: (positions - 1) stride + kernel - 2
 * padding; with pad: same, positions stride. */
#include "nn/layers.h"

#include <string.h>

typedef struct transpose_options {
    int64_t filters;
    lk__window_options window;
    lk_option_ints size;
    bool unit_norm;
    lk_config init;
} transpose_options;

static const lk_option options[] = {
    {"filters", LK_OPTION_INT, offsetof(transpose_options, filters), .value = "N", .min = 1,
     .max = 1e9, .flags = LK_OPTION_REQUIRED, .help = "channels of the output"},
    {"kernel", LK_OPTION_INTS, offsetof(transpose_options, window.kernel), .min = 1, .max = 1e6,
     .flags = LK_OPTION_REQUIRED,
     .help = "positions of a window: one number, or one for each spatial axis"},
    {"stride", LK_OPTION_INTS, offsetof(transpose_options, window.stride), .min = 1, .max = 1e6,
     .help = "positions of the output from one window to the next; 1 by default"},
    {"padding", LK_OPTION_INTS, offsetof(transpose_options, window.padding), .min = 0, .max = 1e6,
     .help = "positions that are cut from both ends of the output"},
    {"pad", LK_OPTION_CHOICE, offsetof(transpose_options, window.pad), .def = "none",
     .choices = "none same", .help = "same: as many are cut as local_conv pads with pad: same"},
    {"size", LK_OPTION_INTS, offsetof(transpose_options, size), .min = 1, .max = 1e9,
     .help =
         "positions of the output, where a stride leaves some over: one number, or one for each "
         "spatial axis; by default the fewest"},
    {"unit_norm", LK_OPTION_FLAG, offsetof(transpose_options, unit_norm), .def = "false",
     .help = "behind each update the weights of each position and channel of the input are divided "
             "by their "
             "norm; what they begin with is not"},
    {"init", LK_OPTION_CONFIG, offsetof(transpose_options, init), .def = "glorot",
     .registry = &lk_registry_init, .help = "what the weight begins with"},
    {0}};

/* Positions of the output. */
static lk_status size_of(const transpose_options *o, lk_shape in, lk_shape *out)
{
    int n = in.ndim - 1;
    int64_t size[3], kernel[3], stride[3], padding[3];
    LK_CHECK(n >= 1 && n <= 3, LK_ESHAPE,
             "the input %s must have 1 to 3 spatial axes, then channels", lk_shape_text(in).s);
    LK_TRY(lk__option_per_axis("size", &o->size, n, 0, size));
    LK_TRY(lk__option_per_axis("kernel", &o->window.kernel, n, 1, kernel));
    LK_TRY(lk__option_per_axis("stride", &o->window.stride, n, 1, stride));
    LK_TRY(lk__option_per_axis("padding", &o->window.padding, n, 0, padding));
    *out = in;
    for (int i = 0; i < n; i++) {
        LK_CHECK(in.dim[i] >= 1 && in.dim[i] < INT64_C(1) << 40, LK_ESHAPE, "the input is %s",
                 lk_shape_text(in).s);
        int64_t least = (in.dim[i] - 1) * stride[i] + kernel[i] - 2 * padding[i];
        if (o->window.pad == 1)
            least = in.dim[i] * stride[i];
        out->dim[i] = size[i] > 0 ? size[i] : least;
        LK_CHECK(out->dim[i] >= 1, LK_ESHAPE,
                 "padding %lld leaves nothing of axis %d of the output", (long long)padding[i], i);
    }
    return LK_OK;
}

/* The window of the local_conv, and where its output is this input what the ends of its input need. */
static lk_status transpose_attr(const transpose_options *o, lk_shape in, lk_conv_attr *attr,
                                lk_shape *out)
{
    lk_window w;
    int64_t positions[3];
    LK_TRY(size_of(o, in, out));
    LK_TRY(lk__layer_window(&o->window, *out, 1, &w, positions));
    lk__window_conv(&w, 1, attr);
    for (int i = 0; i < w.ndim; i++) {
        int64_t fewest = (in.dim[i] - 1) * w.stride[i] + w.kernel[i] - w.pad_lo[i] - w.pad_hi[i];
        LK_CHECK(positions[i] == in.dim[i], LK_ESHAPE,
                 "an output of %lld positions along axis %d has %lld windows, not the input's "
                 "%lld: the size can be %lld to %lld",
                 (long long)out->dim[i], i, (long long)positions[i], (long long)in.dim[i],
                 (long long)fewest, (long long)(fewest + w.stride[i] - 1));
        attr->extra[i] = out->dim[i] - fewest;
    }
    return LK_OK;
}

static lk_status transpose_build(lk_build *build, const void *opt, lk_tensor_type in,
                                 lk_tensor_type *out)
{
    const transpose_options *o = opt;
    lk_conv_attr *attr = NULL;
    int64_t taps = 1;
    LK_TRY(lk__build_check(build, in, 2));
    LK_TRY(lk_build_data(build, sizeof *attr, &attr));
    *out = in;
    LK_TRY(transpose_attr(o, in.shape, attr, &out->shape));
    int n = attr->window.ndim;
    int64_t channels = in.shape.dim[n];
    LK_CHECK(2 * n + 2 <= LK_MAX_NDIM, LK_ESHAPE, "at most 3 spatial axes");
    lk_param weight = {.name = "weight", .shape = {.ndim = 2 * n + 2}, .init = &o->init};
    for (int i = 0; i < n; i++) {
        weight.shape.dim[i] = in.shape.dim[i];
        weight.shape.dim[n + i] = attr->window.kernel[i];
        taps *= attr->window.kernel[i];
    }
    weight.shape.dim[weight.shape.ndim - 2] = out->shape.dim[n] = o->filters;
    weight.shape.dim[weight.shape.ndim - 1] = channels;
    weight.fan_in = taps * channels;
    weight.fan_out = taps * o->filters;
    weight.per_position = true;
    if (o->unit_norm)
        weight.unit = (lk_cut){taps * o->filters, channels};
    LK_TRY(lk_build_param(build, &weight));
    lk_build_window(build, LK_TILE_LOCAL_CONV_TRANSPOSE, &attr->window);
    return LK_OK;
}

static lk_status transpose_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                   lk_var *out)
{
    lk_var w = lk_pass_param(pass, layer, 0);
    const lk_tile *tile = lk_pass_tile(pass, layer);
    return LK_TRACE(tile ? lk_dist_tile_local_conv_transpose(tile, x, w, layer->name, out)
                         : lk_local_conv_transpose(x, w, layer->data, out));
}

static const lk_layer_sample samples[] = {
    {"filters=2 kernel=2", LK_DIMS(2, 3, 2), 0},
    {"filters=1 kernel=3 stride=2 padding=1 size=6", LK_DIMS(3, 2), 0},
    {"filters=2 kernel=4,2 stride=2,1 pad=same size=3,3", LK_DIMS(2, 3, 1), 0},
    {.shape = {.ndim = -1}}};

const lk_layer lk__layer_local_conv_transpose = {
    .descriptor = {.name = "local_conv_transpose",
                   .summary = "the transpose of local_conv: local defiltering, for autoencoders",
                   .options = options,
                   .options_size = sizeof(transpose_options)},
    .reach = LK_REACH_WINDOW,
    .build = transpose_build,
    .forward = transpose_forward,
    .samples = samples};
