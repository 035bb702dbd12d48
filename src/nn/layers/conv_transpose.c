/* conv_transpose: the transpose of a convolution, for growing images: [in..., channels] gives
 * [out..., filters], out = (in - 1) stride + dilation (kernel - 1) + 1 - 2 padding + extra.
 *
 * With `fit` out are the positions that the list of layers begins with: what is beyond is cut from the
 * end, less than a stride, and what is missing comes as `extra`.  So a level of a U-Net ends with the
 * sizes that it began with, whether they are even or odd. */
#include "nn/layers.h"

#include <string.h>

typedef struct transpose_options {
    int64_t filters, groups;
    lk_option_ints kernel, stride, padding, dilation, extra;
    bool bias, fit;
    int algorithm;
    lk_config init, bias_init;
} transpose_options;

static const lk_option options[] = {
    {"filters", LK_OPTION_INT, offsetof(transpose_options, filters), .value = "N", .min = 1,
     .max = 1e9, .flags = LK_OPTION_REQUIRED, .help = "channels of the output"},
    {"kernel", LK_OPTION_INTS, offsetof(transpose_options, kernel), .min = 1, .max = 1e6,
     .flags = LK_OPTION_REQUIRED,
     .help = "size of the kernel: one number, or one for each spatial axis"},
    {"stride", LK_OPTION_INTS, offsetof(transpose_options, stride), .min = 1, .max = 1e6,
     .help = "positions of the output from one of the input to the next; 1 by default"},
    {"padding", LK_OPTION_INTS, offsetof(transpose_options, padding), .min = 0, .max = 1e6,
     .help = "positions that are cut from both ends of the output"},
    {"dilation", LK_OPTION_INTS, offsetof(transpose_options, dilation), .min = 1, .max = 1e6,
     .help = "positions from one tap of the kernel to the next; 1 by default"},
    {"extra", LK_OPTION_INTS, offsetof(transpose_options, extra), .min = 0, .max = 1e6,
     .help = "positions more at the end of the output, below the stride"},
    {"groups", LK_OPTION_INT, offsetof(transpose_options, groups), .value = "N", .def = "1",
     .min = 1, .max = 1e9, .help = "channels are cut into this many groups that do not mix"},
    {"bias", LK_OPTION_FLAG, offsetof(transpose_options, bias), .def = "true",
     .help = "add a vector that is learned too"},
    LK__FIT_OPTION(transpose_options),
    LK__ALGORITHM_OPTION(transpose_options),
    {"init", LK_OPTION_CONFIG, offsetof(transpose_options, init), .def = "glorot",
     .registry = &lk_registry_init, .help = "what the weight begins with"},
    {"bias_init", LK_OPTION_CONFIG, offsetof(transpose_options, bias_init), .def = "constant",
     .registry = &lk_registry_init, .help = "what the bias begins with"},
    {0}};

/* The attributes, and the positions of the output. */
static lk_status transpose_attr(const transpose_options *o, lk_shape in, lk_conv_attr *a,
                                int64_t *kernel, lk_shape *out)
{
    int n = in.ndim - 1;
    LK_CHECK(n >= 1 && n <= 3, LK_ESHAPE,
             "the input %s must have 1 to 3 spatial axes, then channels", lk_shape_text(in).s);
    LK_TRY(lk__option_per_axis("kernel", &o->kernel, n, 1, kernel));
    LK_TRY(lk__option_per_axis("stride", &o->stride, n, 1, a->window.stride));
    LK_TRY(lk__option_per_axis("dilation", &o->dilation, n, 1, a->window.dilation));
    LK_TRY(lk__option_per_axis("padding", &o->padding, n, 0, a->window.pad_lo));
    LK_TRY(lk__option_per_axis("padding", &o->padding, n, 0, a->window.pad_hi));
    LK_TRY(lk__option_per_axis("extra", &o->extra, n, 0, a->extra));
    a->groups = o->groups;
    *out = in;
    for (int i = 0; i < n; i++) {
        LK_CHECK(in.dim[i] >= 1 && in.dim[i] < INT64_C(1) << 40, LK_ESHAPE, "the input is %s",
                 lk_shape_text(in).s);
        LK_CHECK(a->extra[i] < a->window.stride[i], LK_EINVAL,
                 "extra %lld is not below stride %lld", (long long)a->extra[i],
                 (long long)a->window.stride[i]);
        out->dim[i] = (in.dim[i] - 1) * a->window.stride[i] +
                      a->window.dilation[i] * (kernel[i] - 1) + 1 - a->window.pad_lo[i] -
                      a->window.pad_hi[i] + a->extra[i];
        LK_CHECK(out->dim[i] >= 1, LK_ESHAPE,
                 "padding %lld leaves nothing of axis %d of the output",
                 (long long)a->window.pad_lo[i], i);
    }
    return LK_OK;
}

static lk_status transpose_build(lk_build *build, const void *opt, lk_tensor_type in,
                                 lk_tensor_type *out)
{
    const transpose_options *o = opt;
    lk_conv_attr *attr = NULL;
    int64_t kernel[3], taps = 1;
    int n = in.shape.ndim - 1;
    LK_TRY(lk__build_check(build, in, 2));
    LK_TRY(lk_build_data(build, sizeof *attr, &attr));
    *out = in;
    LK_TRY(transpose_attr(o, in.shape, attr, kernel, &out->shape));
    if (o->fit)
        LK_TRY(lk__layer_fit(build, n, attr, &out->shape));
    LK_TRY(lk__layer_algorithm(o->algorithm, n, kernel, attr));
    int64_t channels = in.shape.dim[n];
    LK_CHECK(channels % o->groups == 0 && o->filters % o->groups == 0, LK_ESHAPE,
             "%lld groups do not divide %lld channels and %lld filters", (long long)o->groups,
             (long long)channels, (long long)o->filters);
    lk_param weight = {.name = "weight", .shape = {.ndim = n + 2}, .init = &o->init};
    for (int i = 0; i < n; i++) {
        weight.shape.dim[i] = kernel[i];
        taps *= kernel[i];
    }
    weight.shape.dim[n] = o->filters / o->groups;
    weight.shape.dim[n + 1] = channels;
    out->shape.dim[n] = o->filters;
    weight.fan_in = taps * (channels / o->groups);
    weight.fan_out = taps * (o->filters / o->groups);
    weight.by_tile = true;
    LK_TRY(lk_build_param(build, &weight));
    if (o->bias)
        LK_TRY(lk_build_param(build, &(lk_param){.name = "bias",
                                                 .by_tile = true,
                                                 .shape = LK_SHAPE(o->filters),
                                                 .init = &o->bias_init,
                                                 .fan_in = weight.fan_in,
                                                 .fan_out = weight.fan_out}));
    lk_window w = attr->window;
    w.ndim = n;
    w.grid = o->algorithm == LK_CONV_WINOGRAD ? 4 : 1;
    memcpy(w.kernel, kernel, sizeof kernel);
    lk_build_window(build, LK_TILE_CONV_TRANSPOSE, &w);
    lk_build_summed(build, LK_SUMMED_IN);
    return LK_OK;
}

static lk_status transpose_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                   lk_var *out)
{
    lk_var w = lk_pass_param(pass, layer, 0);
    lk_var b = layer->n_params > 1 ? lk_pass_param(pass, layer, 1) : LK_NO_VAR;
    const lk_tile *tile = lk_pass_tile(pass, layer);
    return LK_TRACE(tile ? lk_dist_tile_conv_transpose(tile, x, w, b, layer->data, layer->name, out)
                         : lk_conv_transpose(x, w, b, layer->data, out));
}

static const lk_layer_sample samples[] = {
    {"filters=3 kernel=3 stride=2 padding=1 extra=1", LK_DIMS(3, 2, 2), 0},
    {"filters=2 kernel=2,3 bias=false", LK_DIMS(2, 3, 1), 0},
    {"filters=4 kernel=3 groups=2 dilation=2", LK_DIMS(4, 2), 0},
    {"filters=2 kernel=3 padding=1 algorithm=winograd", LK_DIMS(4, 5, 3), 0},
    {"filters=2 kernel=1 stride=2 padding=0,1 fit=true", LK_DIMS(2, 2, 3), 0},
    {.shape = {.ndim = -1}}};

const lk_layer lk__layer_conv_transpose = {
    .descriptor = {.name = "conv_transpose",
                   .summary = "the transpose of a convolution, for growing images",
                   .options = options,
                   .options_size = sizeof(transpose_options)},
    .reach = LK_REACH_WINDOW,
    .build = transpose_build,
    .forward = transpose_forward,
    .samples = samples};
