/* lcn: local contrast normalisation of images [rows, columns, channels]: what a Gaussian window says of
 * the neighbourhood is subtracted, then divided by its deviation. */
#include "nn/layers.h"

typedef struct lcn_options {
    lk_option_ints size;
} lcn_options;

static const lk_option options[] = {
    {"size", LK_OPTION_INTS, offsetof(lcn_options, size), .def = "3", .min = 1, .max = 1e6,
     .help = "rows and columns of the window, both odd: one number, or two"},
    {0}};

static lk_status lcn_build(lk_build *build, const void *opt, lk_tensor_type in, lk_tensor_type *out)
{
    const lcn_options *o = opt;
    int64_t *size = NULL;
    LK_TRY(lk__build_check(build, in, 3));
    LK_CHECK(in.shape.ndim == 3, LK_ESHAPE, "the input %s must be rows, columns, channels",
             lk_shape_text(in.shape).s);
    LK_TRY(lk_build_data(build, 2 * sizeof *size, &size));
    LK_TRY(lk__option_per_axis("size", &o->size, 2, 3, size));
    LK_CHECK(size[0] % 2 && size[1] % 2, LK_EINVAL, "a window of %lld x %lld: both must be odd",
             (long long)size[0], (long long)size[1]);
    lk_window w = {.ndim = 2, .kernel = {size[0], size[1]}};
    for (int d = 0; d < 2; d++)
        w.pad_lo[d] = w.pad_hi[d] = size[d] / 2;
    lk_build_window(build, LK_TILE_LCN, &w);
    *out = in;
    return LK_OK;
}

static lk_status lcn_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    const int64_t *size = layer->data;
    const lk_tile *tile = lk_pass_tile(pass, layer);
    if (tile)
        LK_TRY(lk_dist_tile_lcn(tile, x, size[0], size[1], layer->name, out));
    else
        LK_TRY(lk_lcn(x, size[0], size[1], out));
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {NULL, LK_DIMS(4, 3, 2), 0}, {"size=3,1", LK_DIMS(3, 4, 1), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_lcn = {.descriptor = {.name = "lcn",
                                               .summary = "local contrast normalisation of images",
                                               .options = options,
                                               .options_size = sizeof(lcn_options)},
                                .reach = LK_REACH_WINDOW,
                                .build = lcn_build,
                                .forward = lcn_forward,
                                .samples = samples};
