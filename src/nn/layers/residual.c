/* residual: what the layers make of x, joined with x itself or what its shortcut makes of it.
 *
 *   join: add      y = layers(x) + shortcut(x); without a shortcut, y = layers(x) + x
 *   join: concat   y[..., 0 ... m-1] = shortcut(x), y[..., m ... m+n-1] = layers(x): the channels of
 *                  the shortcut, or of x itself, and behind them those of the layers; all other axes
 *                  are equal
 *
 * Within `layers` of one that concatenates can be another: down, residual, up is a level of a U-Net.
 *
 * A concatenated value is one of m + n channels like any other, and its blocks are those of m + n, not
 * those of its two parts: a block of y needs channels of x from elsewhere, hence the reach POSITION.
 * Parameters are cut by what their own layers give, within the lists and behind them.
 */
#include "nn/layers.h"

enum { ADD, CONCAT };

typedef struct residual_options {
    lk_configs layers, shortcut;
    int join;
} residual_options;

static const lk_option options[] = {
    {"layers", LK_OPTION_CONFIGS, offsetof(residual_options, layers),
     .registry = &lk_registry_layer, .flags = LK_OPTION_REQUIRED, .help = "what is joined with x"},
    {"shortcut", LK_OPTION_CONFIGS, offsetof(residual_options, shortcut),
     .registry = &lk_registry_layer, .help = "what x passes, where the layers change its shape"},
    {"join", LK_OPTION_CHOICE, offsetof(residual_options, join), .def = "add",
     .choices = "add concat", .flags = LK_OPTION_LATER,
     .help = "add: the sum, of equal shapes; concat: the channels (the last axis) of x or its "
             "shortcut, then those of the layers, all other axes being equal"},
    {0}};

enum { LAYERS, SHORTCUT };

/* Whether both have the same axes, but for the number of channels. */
static bool has_same_positions(lk_shape a, lk_shape b)
{
    if (a.ndim != b.ndim || a.ndim == 0)
        return false;
    b.dim[b.ndim - 1] = a.dim[a.ndim - 1];
    return lk_shape_is_equal(a, b);
}

static lk_status sum_check(lk_tensor_type changed, lk_tensor_type same)
{
    bool hint = changed.dtype == same.dtype && has_same_positions(changed.shape, same.shape);
    LK_CHECK(
        lk_shape_is_equal(changed.shape, same.shape) && changed.dtype == same.dtype, LK_ESHAPE,
        "the layers give %s, the shortcut %s%s", lk_shape_text(changed.shape).s,
        lk_shape_text(same.shape).s,
        hint ? "; a shortcut can give x as many channels, and join: concat takes both as they are"
             : "");
    return LK_OK;
}

/* *out is the type of the layers, and becomes that of both. */
static lk_status concat_type(lk_tensor_type same, lk_tensor_type *out)
{
    lk_tensor_type changed = *out;
    int last = changed.shape.ndim - 1;
    LK_CHECK(has_same_positions(changed.shape, same.shape) && changed.dtype == same.dtype,
             LK_ESHAPE,
             "the layers give %s%s, the shortcut %s%s, and join: concat takes one type, and axes "
             "that are equal but for the last: let `layers` end with the sizes of x, or `shortcut` "
             "change x as they do",
             lk_dtype_name(changed.dtype), lk_shape_text(changed.shape).s,
             lk_dtype_name(same.dtype), lk_shape_text(same.shape).s);
    LK_CHECK(!__builtin_add_overflow(changed.shape.dim[last], same.shape.dim[last],
                                     &out->shape.dim[last]),
             LK_EOVERFLOW, "the layers give %s, the shortcut %s: too many channels to be joined",
             lk_shape_text(changed.shape).s, lk_shape_text(same.shape).s);
    return LK_OK;
}

extern const lk_layer lk__layer_dropout;

/* Whether the sum and the dropout at the end of the layers are to be one pass. */
static bool ends_with_dropout(const residual_options *o)
{
    const lk_configs *layers = &o->layers;
    return o->join == ADD && layers->n > 0 &&
           layers->item[layers->n - 1].descriptor == &lk__layer_dropout.descriptor;
}

static lk_status residual_build(lk_build *build, const void *opt, lk_tensor_type in,
                                lk_tensor_type *out)
{
    const residual_options *o = opt;
    lk_tensor_type same;
    bool *drops;
    LK_TRY(lk_build_data(build, sizeof *drops, &drops));
    *drops = ends_with_dropout(o);
    LK_TRY(lk_build_layers(build, "", &o->layers, in, out));
    LK_TRY(lk_build_layers(build, "shortcut", &o->shortcut, in, &same));
    if (o->join == CONCAT) {
        lk_build_reach(build, LK_REACH_POSITION);
        LK_TRY(concat_type(same, out));
    } else {
        LK_TRY(sum_check(*out, same));
        lk_build_features(build, LK_FEATURES_EACH);
    }
    return LK_OK;
}

static lk_status residual_join(const lk_layer_instance *layer, const lk_var *of, lk_var *out)
{
    const residual_options *o = layer->options;
    if (o->join == CONCAT)
        LK_TRY(lk_concat((lk_var[]){of[SHORTCUT], of[LAYERS]}, 2, layer->out.shape.ndim, out));
    else
        LK_TRY(lk_add(of[LAYERS], of[SHORTCUT], out));
    return LK_OK;
}

static lk_status residual_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                  lk_var *out)
{
    const lk_layer_instance *dropout = NULL;
    lk_dropout_attr attr;
    lk_var of[2];
    if (*(const bool *)layer->data)
        LK_TRY(lk__pass_layers_but_last(pass, layer, LAYERS, x, &dropout, &of[LAYERS]));
    else
        LK_TRY(lk_pass_layers(pass, layer, LAYERS, x, &of[LAYERS]));
    LK_TRY(lk_pass_layers(pass, layer, SHORTCUT, x, &of[SHORTCUT]));
    lk_act act = lk_pass_fused_act(pass);
    if (dropout && lk__dropout_drops(pass, dropout, &attr)) {
        LK_TRY(lk_dropout_add(of[LAYERS], &attr, of[SHORTCUT], out));
        LK_TRY(lk__layer_act(pass, out));
    } else if (act != LK_ACT_NONE && ((const residual_options *)layer->options)->join == ADD) {
        LK_TRY(lk_add_act(of[LAYERS], of[SHORTCUT], act, out));
    } else {
        LK_TRY(residual_join(layer, of, out));
        LK_TRY(lk__layer_act(pass, out));
    }
    return LK_OK;
}

static const lk_layer_sample samples[] = {
    {"layers=tanh", LK_DIMS(5), 0},
    {"layers=gelu,tanh shortcut=elu", LK_DIMS(3), 0},
    {"layers=linear(units=4 name=a),tanh,linear(units=4 "
     "tie=residual1.a.weight)",
     LK_DIMS(4), 0},
    {"layers=linear(units=2 name=a),linear(units=3 "
     "transpose=true tie=residual1.a.weight)",
     LK_DIMS(3), 0},
    {"layers=tanh join=concat", LK_DIMS(3), 0},
    {"layers=linear(units=2),tanh shortcut=linear(units=3),gelu join=concat", LK_DIMS(4), 0},
    {"layers=avgpool(size=2),conv(filters=3 kernel=3 padding=1),residual(layers=avgpool(size=2),"
     "conv(filters=2 kernel=1),tanh,conv_transpose(filters=2 kernel=2 stride=2) join=concat),tanh,"
     "conv_transpose(filters=2 kernel=2 stride=2) join=concat",
     LK_DIMS(4, 8, 2), 0},
    {"layers=maxpool(size=2 pad=same),residual(layers=avgpool(size=3 pad=same),tanh,"
     "conv_transpose(filters=2 kernel=4 stride=3 padding=1 fit=true) join=concat),"
     "repeat(size=2 fit=true) join=concat",
     LK_DIMS(5, 7, 2), 0},
    {.shape = {.ndim = -1}}};

const lk_layer lk__layer_residual = {
    .descriptor =
        {.name = "residual",
         .summary = "y = layers(x) + shortcut(x), or + x; or both, channel behind channel",
         .options = options,
         .options_size = sizeof(residual_options)},
    .flags = LK_LAYER_FUSES_ACT_AFTER,
    .reach = LK_REACH_ELEMENT,
    .build = residual_build,
    .forward = residual_forward,
    .samples = samples,
    .join = residual_join};
