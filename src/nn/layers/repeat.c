/* repeat: each position several times along each spatial axis, the nearest neighbour of a larger image:
 * [in..., channels] gives [in size..., channels].  The transpose of a convolution with stride `size` and
 * weights 1, each channel for itself.  With `fit` the sizes are those that the list of layers begins with:
 * what is beyond is cut from the end. */
#include "nn/layers.h"

#include <lockstep/extra/checked.h>

typedef struct repeat_options {
    lk_option_ints size;
    bool fit;
} repeat_options;

static const lk_option options[] = {
    {"size", LK_OPTION_INTS, offsetof(repeat_options, size), .min = 1, .max = 1e6,
     .flags = LK_OPTION_REQUIRED,
     .help = "how often each position comes: one number, or one for each spatial axis"},
    LK__FIT_OPTION(repeat_options),
    {0}};

static lk_status repeat_build(lk_build *build, const void *opt, lk_tensor_type in,
                              lk_tensor_type *out)
{
    const repeat_options *o = opt;
    lk_conv_attr *attr = NULL;
    int n = in.shape.ndim - 1;
    LK_TRY(lk__build_check(build, in, 2));
    LK_CHECK(n <= 3, LK_ESHAPE, "the input %s must have 1 to 3 spatial axes, then channels",
             lk_shape_text(in.shape).s);
    LK_TRY(lk_build_data(build, sizeof *attr, &attr));
    attr->window.ndim = n;
    attr->groups = in.shape.dim[n];
    LK_TRY(lk__option_per_axis("size", &o->size, n, 1, attr->window.kernel));
    *out = in;
    for (int i = 0; i < n; i++) {
        attr->window.stride[i] = attr->window.kernel[i];
        LK_TRY(lk_mul_i64(in.shape.dim[i], attr->window.kernel[i], &out->shape.dim[i]));
    }
    if (o->fit)
        LK_TRY(lk__layer_fit(build, n, attr, &out->shape));
    lk_build_window(build, LK_TILE_CONV_TRANSPOSE, &attr->window);
    return LK_OK;
}

static lk_status repeat_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                lk_var *out)
{
    const lk_conv_attr *attr = layer->data;
    const lk_tile *tile = lk_pass_tile(pass, layer);
    int n = attr->window.ndim;
    lk_shape ones = {.ndim = n + 2};
    lk_var w;
    for (int i = 0; i < n; i++)
        ones.dim[i] = attr->window.kernel[i];
    ones.dim[n] = 1;
    ones.dim[n + 1] = attr->groups;
    LK_TRY(lk_full(pass->tape, layer->in.dtype, ones, 1, &w));
    LK_TRY(lk_contiguous(w, &w));
    return LK_TRACE(tile
                        ? lk_dist_tile_conv_transpose(tile, x, w, LK_NO_VAR, attr, layer->name, out)
                        : lk_conv_transpose(x, w, LK_NO_VAR, attr, out));
}

static const lk_layer_sample samples[] = {{"size=2", LK_DIMS(3, 2, 2), 0},
                                          {"size=3", LK_DIMS(4, 1), 0},
                                          {"size=1,2,3", LK_DIMS(2, 3, 2, 2), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_repeat = {
    .descriptor = {.name = "repeat",
                   .summary = "each position several times along each spatial axis",
                   .options = options,
                   .options_size = sizeof(repeat_options)},
    .reach = LK_REACH_WINDOW,
    .build = repeat_build,
    .forward = repeat_forward,
    .samples = samples};
