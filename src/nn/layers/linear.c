/* linear: y = x w + b on the last axis, w [in][units]; with `transpose` y = x w' + b, w [units][in].  On
 * values with positions it runs by tiles.  Its units are cut into blocks, or with `cut: in` what comes in: y is
 * then b + the tree over the blocks of x w. */
#include <lockstep/nn.h>
#include <lockstep/op.h>

typedef struct linear_options {
    int64_t units;
    bool bias, transpose;
    int cut;
    lk_config init, bias_init;
} linear_options;

static const lk_option options[] = {
    {"units", LK_OPTION_INT, offsetof(linear_options, units), .value = "N", .min = 1, .max = 1e9,
     .flags = LK_OPTION_REQUIRED, .help = "size of the last axis of the output"},
    {"bias", LK_OPTION_FLAG, offsetof(linear_options, bias), .def = "true",
     .help = "add a vector that is learned too"},
    {"init", LK_OPTION_CONFIG, offsetof(linear_options, init), .def = "glorot",
     .registry = &lk_registry_init, .help = "what the weight begins with"},
    {"bias_init", LK_OPTION_CONFIG, offsetof(linear_options, bias_init), .def = "constant",
     .registry = &lk_registry_init, .help = "what the bias begins with"},
    {"transpose", LK_OPTION_FLAG, offsetof(linear_options, transpose), .def = "false",
     .flags = LK_OPTION_LATER,
     .help =
         "the weight is [units][in], so that a tie can share an embedding's table or the weight "
         "of an encoder"},
    {"cut", LK_OPTION_CHOICE, offsetof(linear_options, cut), .def = "out", .choices = "out in",
     .flags = LK_OPTION_LATER,
     .help = "which axis pieces.blocks cut: the units, or what comes in, as it comes from a layer "
             "whose units are cut; with one block the bits are the same"},
    {0}};

/* How the weight is cut: a row-major [...][n][inner]. */
static lk_cut weight_cut(const linear_options *o, int64_t in)
{
    int64_t n = o->cut == LK_FEATURE_IN ? in : o->units,
            other = o->cut == LK_FEATURE_IN ? o->units : in;
    return (lk_cut){n, (o->cut == LK_FEATURE_IN) != o->transpose ? other : 1};
}

static lk_status linear_build(lk_build *build, const void *opt, lk_tensor_type in,
                              lk_tensor_type *out)
{
    const linear_options *o = opt;
    LK_CHECK(in.shape.ndim >= 1, LK_ESHAPE, "an input without axes");
    LK_CHECK(in.dtype == lk_build_dtype(build), LK_EDTYPE, "the input must be %s",
             lk_dtype_name(lk_build_dtype(build)));
    int64_t n = in.shape.dim[in.shape.ndim - 1];
    LK_TRY(lk_build_param(
        build, &(lk_param){.name = "weight",
                           .shape = o->transpose ? LK_SHAPE(o->units, n) : LK_SHAPE(n, o->units),
                           .init = &o->init,
                           .fan_in = n,
                           .fan_out = o->units,
                           .cut = weight_cut(o, n),
                           .by_tile = true}));
    if (o->bias)
        LK_TRY(lk_build_param(build, &(lk_param){.name = "bias",
                                                 .shape = LK_SHAPE(o->units),
                                                 .init = &o->bias_init,
                                                 .fan_in = n,
                                                 .fan_out = o->units,
                                                 .cut = {o->cut == LK_FEATURE_IN ? 0 : o->units, 1},
                                                 .by_tile = true}));
    if (in.shape.ndim > 1) {
        lk_build_reach(build, LK_REACH_POSITION);
        lk_build_summed(build, LK_SUMMED_IN);
    }
    lk_build_features(build, o->cut == LK_FEATURE_IN ? LK_FEATURES_IN : LK_FEATURES_EITHER);
    *out = in;
    out->shape.dim[in.shape.ndim - 1] = o->units;
    return LK_OK;
}

/* How the layer is cut over blocks, with its sizes as a whole. */
static lk_feature_linear_attr split_attr(const lk_pass *pass, const lk_layer_instance *layer,
                                         const lk_feature_part *f)
{
    return (lk_feature_linear_attr){.cut = f->kind == LK_FEATURES_IN ? LK_FEATURE_IN
                                                                     : LK_FEATURE_OUT,
                                    .sum = f->sum,
                                    .in = layer->in.shape.dim[layer->in.shape.ndim - 1],
                                    .units = layer->out.shape.dim[layer->out.shape.ndim - 1],
                                    .act = lk_pass_fused_act(pass)};
}

static lk_status linear_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                lk_var *out)
{
    const linear_options *o = layer->options;
    lk_var w = lk_pass_param(pass, layer, 0);
    lk_var b = o->bias ? lk_pass_param(pass, layer, 1) : LK_NO_VAR;
    const lk_tile *tile = lk_pass_tile(pass, layer);
    const lk_feature_part *f = lk_pass_features(pass, layer);
    lk_act act = lk_pass_fused_act(pass);
    int ndim = lk_shape_of(w).ndim; /* by tile, the tiles come first */
    if (o->transpose)
        LK_TRY(lk_transpose(w, ndim - 2, ndim - 1, &w));
    if (f && f->kind != LK_FEATURES_WHOLE) {
        lk_feature_linear_attr attr = split_attr(pass, layer, f);
        if (tile)
            LK_TRY(lk_dist_tile_feature_linear(tile, f->split, &attr, x, w, b, layer->name, out));
        else
            LK_TRY(lk_dist_feature_linear(f->split, &attr, x, w, b, layer->name, out));
    } else if (tile)
        LK_TRY(lk_dist_tile_linear(tile, x, w, b, act, layer->name, out));
    else
        LK_TRY(lk_linear_act(x, w, b, act, out));
    return LK_OK;
}

static const lk_layer_sample samples[] = {{"units=3", LK_DIMS(4), 0},
                                          {"units=1 bias=false", LK_DIMS(5), 0},
                                          {"units=2 init=he", LK_DIMS(3, 4), 0},
                                          {"units=3 transpose=true", LK_DIMS(4), 0},
                                          {"units=2 cut=in", LK_DIMS(5), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_linear = {.descriptor = {.name = "linear",
                                                  .summary = "y = x w + b, w [in][units]",
                                                  .options = options,
                                                  .options_size = sizeof(linear_options)},
                                   .flags = LK_LAYER_FUSES_ACT_AFTER | LK_LAYER_SCATTERS,
                                   .build = linear_build,
                                   .forward = linear_forward,
                                   .samples = samples};
