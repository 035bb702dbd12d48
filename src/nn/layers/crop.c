/* crop: positions at both ends of each spatial axis are left out: [in..., channels] gives [in - before -
 * after..., channels].  The largest of windows of one position, with a padding below 0. */
#include "nn/layers.h"

typedef struct crop_options {
    lk_option_ints before, after;
} crop_options;

static const lk_option options[] = {
    {"before", LK_OPTION_INTS, offsetof(crop_options, before), .min = 0, .max = 1e6,
     .flags = LK_OPTION_REQUIRED,
     .help = "positions left out before the first: one number, or one for each spatial axis"},
    {"after", LK_OPTION_INTS, offsetof(crop_options, after), .min = 0, .max = 1e6,
     .help = "positions left out behind the last; as many as before by default"},
    {0}};

static lk_status crop_build(lk_build *build, const void *opt, lk_tensor_type in,
                            lk_tensor_type *out)
{
    const crop_options *o = opt;
    lk_pool_attr *attr = NULL;
    int n = in.shape.ndim - 1;
    int64_t before[3], after[3];
    LK_TRY(lk__build_check(build, in, 2));
    LK_CHECK(n <= 3, LK_ESHAPE, "the input %s must have 1 to 3 spatial axes, then channels",
             lk_shape_text(in.shape).s);
    LK_TRY(lk__option_per_axis("before", &o->before, n, 0, before));
    LK_TRY(lk__option_per_axis("after", o->after.n > 0 ? &o->after : &o->before, n, 0, after));
    LK_TRY(lk_build_data(build, sizeof *attr, &attr));
    attr->window.ndim = n;
    *out = in;
    for (int i = 0; i < n; i++) {
        attr->window.kernel[i] = attr->window.stride[i] = 1;
        attr->window.pad_lo[i] = -before[i];
        attr->window.pad_hi[i] = -after[i];
        out->shape.dim[i] -= before[i] + after[i];
        LK_CHECK(out->shape.dim[i] >= 1, LK_ESHAPE,
                 "axis %d of the input %s has nothing left without %lld before and %lld behind", i,
                 lk_shape_text(in.shape).s, (long long)before[i], (long long)after[i]);
    }
    lk_build_window(build, LK_TILE_POOL, &attr->window);
    lk_build_features(build, LK_FEATURES_EACH);
    return LK_OK;
}

static lk_status crop_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    const lk_tile *tile = lk_pass_tile(pass, layer);
    return LK_TRACE(
        tile ? lk_dist_tile_pool(tile, LK_POOL_MAX, x, layer->data, false, layer->name, out)
             : lk_max_pool(x, layer->data, out, NULL));
}

static const lk_layer_sample samples[] = {{"before=1", LK_DIMS(4, 5, 2), 0},
                                          {"before=2 after=0", LK_DIMS(5, 3), 0},
                                          {"before=0,1,2 after=1,0,0", LK_DIMS(3, 2, 4, 1), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_crop = {
    .descriptor = {.name = "crop",
                   .summary = "positions at both ends of each spatial axis are left out",
                   .options = options,
                   .options_size = sizeof(crop_options)},
    .reach = LK_REACH_WINDOW,
    .build = crop_build,
    .forward = crop_forward,
    .samples = samples};
