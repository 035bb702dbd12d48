/* batch_norm: (x - mean) / sqrt(variance + eps) * gamma + beta for each channel, the last axis.
 *
 * In training mean and variance are those of a shard of the batch, or of all of it; the running ones
 * that evaluation uses move towards the mean of the shards' by `momentum` in each step.  A frozen one uses
 * the running ones in training as well.
 */
#include "nn/layers.h"

#include <lockstep/dist.h>
#include <lockstep/op.h>

enum { SHARD, BATCH }; /* whose statistics */

typedef struct norm_options {
    double momentum, eps;
    int statistics;
} norm_options;

static const lk_option options[] = {
    {"momentum", LK_OPTION_REAL, offsetof(norm_options, momentum), .def = "0.1", .max = 1,
     .help = "share of a step's statistics in the running ones"},
    {"eps", LK_OPTION_REAL, offsetof(norm_options, eps), .def = "1e-5", .max = 1,
     .flags = LK_OPTION_OPEN_MIN, .help = "added to the variance"},
    {"statistics", LK_OPTION_CHOICE, offsetof(norm_options, statistics), .def = "shard",
     .choices = "shard batch",
     .help =
         "whose mean and variance training uses: a shard's, or the whole batch's, for which ranks "
         "wait for each other"},
    {0}};

enum { GAMMA, BETA };
enum { MEAN, VARIANCE };

static lk_status norm_build(lk_build *build, const void *opt, lk_tensor_type in,
                            lk_tensor_type *out)
{
    const norm_options *o = opt;
    LK_TRY(lk__build_check(build, in, 1));
    int64_t channels = in.shape.dim[in.shape.ndim - 1];
    lk_shape shape = LK_SHAPE(channels);
    lk_cut cut = {channels, 1};
    LK_TRY(
        lk__build_constant(build, (lk_param){.name = "gamma", .shape = shape, .cut = cut}, true));
    LK_TRY(
        lk__build_constant(build, (lk_param){.name = "beta", .shape = shape, .cut = cut}, false));
    LK_TRY(lk_build_state(build, "mean", shape, cut, 0, o->momentum));
    LK_TRY(lk_build_state(build, "variance", shape, cut, 1, o->momentum));
    if (o->statistics == BATCH)
        lk_build_batch_sync(build, (lk_joins){2, 2 * channels}, (lk_joins){1, 2 * channels});
    lk_build_summed(build, LK_SUMMED_IN);
    lk_build_features(build, LK_FEATURES_EACH);
    *out = in;
    return LK_OK;
}

/* By the statistics of the whole batch.  They are the same for all its parts, so they are observed once:
 * with the first samples. */
static lk_status norm_of_batch(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                               lk_var out[3])
{
    const norm_options *o = layer->options;
    lk_batch_norm_attr attr = {.eps = o->eps, .whole_batch = true, .act = lk_pass_fused_act(pass)};
    lk_var gamma = lk_pass_param(pass, layer, GAMMA), beta = lk_pass_param(pass, layer, BETA);
    const lk_dist_batch *batch = lk_pass_batch(pass, layer);
    const lk_tile *tile = lk_pass_tile(pass, layer);
    LK_CHECK(
        batch || !pass->part, LK_ENOTSUP,
        "it takes its statistics over the whole batch, which is cut into parts because a layer "
        "uses its parameters more than once; use statistics: shard");
    if (tile)
        LK_TRY(lk_dist_tile_batch_norm(tile, batch, x, gamma, beta, &attr, layer->name, out));
    else if (batch)
        LK_TRY(lk_dist_batch_norm(batch, x, gamma, beta, &attr, layer->name, out));
    else
        LK_TRY(lk_batch_norm(x, gamma, beta, &attr, &out[0], &out[1], &out[2]));
    if (lk_pass_first(pass, layer) > 0 || lk_shape_of(x).dim[0] == 0)
        out[1] = out[2] = LK_NO_VAR;
    return LK_OK;
}

/* A parameter [channels] that may be given once for each tile. */
static lk_status of_one_tile(lk_var *param)
{
    lk_shape shape = lk_shape_of(*param);
    if (shape.ndim == 1)
        return LK_OK;
    LK_TRY(lk_slice(*param, 0, 0, 1, 1, param));
    return LK_TRACE(lk_reshape(*param, LK_SHAPE(shape.dim[1]), param));
}

/* By the running statistics. */
static lk_status norm_of_state(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                               lk_var *out)
{
    const norm_options *o = layer->options;
    lk_batch_norm_attr attr = {.eps = o->eps, .act = lk_pass_fused_act(pass)};
    lk_var gamma = lk_pass_param(pass, layer, GAMMA), beta = lk_pass_param(pass, layer, BETA), mean,
           variance;
    LK_TRY(of_one_tile(&gamma));
    LK_TRY(of_one_tile(&beta));
    LK_TRY(lk_pass_state(pass, layer, MEAN, &mean));
    LK_TRY(lk_pass_state(pass, layer, VARIANCE, &variance));
    return LK_TRACE(lk_batch_norm_inference(x, gamma, beta, mean, variance, &attr, out));
}

static lk_status norm_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    const norm_options *o = layer->options;
    lk_batch_norm_attr attr = {.eps = o->eps, .act = lk_pass_fused_act(pass)};
    lk_var gamma = lk_pass_param(pass, layer, GAMMA), beta = lk_pass_param(pass, layer, BETA),
           seen[3];
    if (!pass->training || layer->frozen)
        return norm_of_state(pass, layer, x, out);
    const lk_tile *tile = lk_pass_tile(pass, layer);
    if (o->statistics == BATCH)
        LK_TRY(norm_of_batch(pass, layer, x, seen));
    else if (tile)
        LK_TRY(lk_dist_tile_batch_norm(tile, NULL, x, gamma, beta, &attr, layer->name, seen));
    else
        LK_TRY(lk_batch_norm(x, gamma, beta, &attr, &seen[0], &seen[1], &seen[2]));
    *out = seen[0];
    for (int i = MEAN; i <= VARIANCE && lk_is_var(seen[1 + i]); i++)
        LK_TRY(lk_pass_batch_stat(pass, layer, i, seen[1 + i]));
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {NULL, LK_DIMS(3, 2), 0}, {"eps=0.01", LK_DIMS(4), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_batch_norm = {
    .descriptor = {.name = "batch_norm",
                   .summary = "(x - mean) / sqrt(variance + eps) * gamma + beta for each channel",
                   .options = options,
                   .options_size = sizeof(norm_options)},
    .flags = LK_LAYER_FUSES_ACT_AFTER,
    .reach = LK_REACH_BATCH,
    .build = norm_build,
    .forward = norm_forward,
    .samples = samples};
