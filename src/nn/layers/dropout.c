/* dropout: in training each element is 0 with probability `rate`, the others are x / (1 - rate). */
#include "nn/layers.h"

typedef struct dropout_options {
    double rate;
} dropout_options;

static const lk_option options[] = {{"rate", LK_OPTION_REAL, offsetof(dropout_options, rate),
                                     .def = "0.5", .max = 1, .flags = LK_OPTION_OPEN_MAX,
                                     .help = "share of elements that become 0"},
                                    {0}};

bool lk__dropout_drops(const lk_pass *pass, const lk_layer_instance *layer, lk_dropout_attr *out)
{
    const dropout_options *o = layer->options;
    if (!pass->training || o->rate <= 0)
        return false;
    *out = (lk_dropout_attr){.stream = lk_pass_rng(pass, layer, "dropout"),
                             .step = pass->step,
                             .first = lk_pass_first(pass, layer),
                             .keep = 1 - o->rate};
    const lk_tile *tile = lk_pass_tile(pass, layer);
    const lk_feature_part *f = lk_pass_features(pass, layer);
    bool some = f && f->x && f->split->size > 1;
    if (tile || some) { /* the draws of the whole sample, where this rank holds it */
        int last = layer->in.shape.ndim - 1;
        lk_range own = {0, layer->in.shape.dim[last]};
        if (some)
            own = lk_feature_range(f->split, f->split->rank, own.n);
        out->of = layer->in.shape;
        out->box = tile ? tile->x.box : lk_box_whole(last, layer->in.shape.dim);
        out->box.ndim = last + 1;
        out->box.first[last] = own.first;
        out->box.n[last] = own.n;
    }
    return true;
}

static lk_status dropout_build(lk_build *build, const void *opt, lk_tensor_type in,
                               lk_tensor_type *out)
{
    LK_TRY(lk__build_elementwise(build, opt, in, out));
    lk_build_features(build, LK_FEATURES_EACH);
    return LK_OK;
}

static lk_status dropout_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                 lk_var *out)
{
    lk_dropout_attr attr;
    *out = x;
    if (lk__dropout_drops(pass, layer, &attr))
        LK_TRY(lk_dropout(x, &attr, out));
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {NULL, LK_DIMS(5), 0}, {"rate=0.2", LK_DIMS(2, 3), 0}, {.shape = {.ndim = -1}}};

const lk_layer lk__layer_dropout = {
    .descriptor = {.name = "dropout",
                   .summary = "in training, 0 with probability `rate`, otherwise x / (1 - rate)",
                   .options = options,
                   .options_size = sizeof(dropout_options)},
    .flags = LK_LAYER_RANDOM,
    .reach = LK_REACH_ELEMENT,
    .build = dropout_build,
    .forward = dropout_forward,
    .samples = samples};
