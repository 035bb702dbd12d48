/* embedding: rows of a table by number: integers [...] give [..., units]. */
#include "nn/layers.h"

typedef struct embedding_options {
    int64_t rows, units;
    lk_config init;
} embedding_options;

static const lk_option options[] = {
    {"rows", LK_OPTION_INT, offsetof(embedding_options, rows), .value = "N", .min = 1, .max = 1e12,
     .flags = LK_OPTION_REQUIRED, .help = "of the table: integers are below it"},
    {"units", LK_OPTION_INT, offsetof(embedding_options, units), .value = "N", .min = 1, .max = 1e9,
     .flags = LK_OPTION_REQUIRED, .help = "numbers in a row"},
    {"init", LK_OPTION_CONFIG, offsetof(embedding_options, init), .def = "normal",
     .registry = &lk_registry_init, .help = "what the table begins with"},
    {0}};

static lk_status embedding_build(lk_build *build, const void *opt, lk_tensor_type in,
                                 lk_tensor_type *out)
{
    const embedding_options *o = opt;
    LK_CHECK(in.dtype == LK_I64 || in.dtype == LK_I32, LK_EDTYPE,
             "the input must be i64 or i32, not %s", lk_dtype_name(in.dtype));
    LK_CHECK(in.shape.ndim < LK_MAX_NDIM - 1, LK_ESHAPE, "the input %s has too many axes",
             lk_shape_text(in.shape).s);
    LK_TRY(lk_build_param(build, &(lk_param){.name = "weight",
                                             .shape = LK_SHAPE(o->rows, o->units),
                                             .init = &o->init,
                                             .fan_in = o->rows,
                                             .fan_out = o->units,
                                             .cut = {o->units, 1}}));
    lk_build_features(build, LK_FEATURES_EITHER);
    *out = (lk_tensor_type){lk_build_dtype(build), in.shape};
    out->shape.dim[out->shape.ndim++] = o->units;
    return LK_OK;
}

static int64_t embedding_indices(const void *opt)
{
    const embedding_options *o = opt;
    return o->rows;
}

static lk_status embedding_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                   lk_var *out)
{
    const embedding_options *o = layer->options;
    const lk_feature_part *f = lk_pass_features(pass, layer);
    lk_var table = lk_pass_param(pass, layer, 0);
    if (f &&
        f->kind == LK_FEATURES_IN) /* the rows are cut, as a layer that shares the table has it */
        LK_TRY(lk_dist_feature_embedding(f->split, o->rows, table, x, layer->name, out));
    else
        LK_TRY(lk_embedding(table, x, out));
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {"rows=5 units=3", LK_DIMS(4), 5}, {"rows=3 units=2", {.ndim = 0}, 3}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_embedding = {.descriptor = {.name = "embedding",
                                                     .summary = "rows of a table by number",
                                                     .options = options,
                                                     .options_size = sizeof(embedding_options)},
                                      .build = embedding_build,
                                      .forward = embedding_forward,
                                      .samples = samples,
                                      .indices = embedding_indices};
