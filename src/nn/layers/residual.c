/* residual: y = layers(x) + shortcut(x); without a shortcut, y = layers(x) + x. */
#include "nn/layers.h"

typedef struct residual_options {
    lk_configs layers, shortcut;
} residual_options;

static const lk_option options[] = {
    {"layers", LK_OPTION_CONFIGS, offsetof(residual_options, layers),
     .registry = &lk_registry_layer, .flags = LK_OPTION_REQUIRED, .help = "what is added to x"},
    {"shortcut", LK_OPTION_CONFIGS, offsetof(residual_options, shortcut),
     .registry = &lk_registry_layer, .help = "what x passes, where the layers change its shape"},
    {0}};

enum { LAYERS, SHORTCUT };

static lk_status residual_build(lk_build *build, const void *opt, lk_tensor_type in,
                                lk_tensor_type *out)
{
    const residual_options *o = opt;
    lk_tensor_type other;
    LK_TRY(lk_build_layers(build, "", &o->layers, in, out));
    LK_TRY(lk_build_layers(build, "shortcut", &o->shortcut, in, &other));
    LK_CHECK(lk_shape_is_equal(out->shape, other.shape) && out->dtype == other.dtype, LK_ESHAPE,
             "the layers give %s, the shortcut %s", lk_shape_text(out->shape).s,
             lk_shape_text(other.shape).s);
    return LK_OK;
}

static lk_status residual_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                  lk_var *out)
{
    lk_var changed, same;
    LK_TRY(lk_pass_layers(pass, layer, LAYERS, x, &changed));
    LK_TRY(lk_pass_layers(pass, layer, SHORTCUT, x, &same));
    LK_TRY(lk_add(changed, same, out));
    return LK_OK;
}

static const lk_layer_sample samples[] = {{"layers=tanh", LK_DIMS(5), 0},
                                          {"layers=gelu,tanh shortcut=elu", LK_DIMS(3), 0},
                                          {"layers=linear(units=4 name=a),tanh,linear(units=4 "
                                           "tie=residual1.a.weight)",
                                           LK_DIMS(4), 0},
                                          {"layers=linear(units=2 name=a),linear(units=3 "
                                           "transpose=true tie=residual1.a.weight)",
                                           LK_DIMS(3), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_residual = {
    .descriptor = {.name = "residual",
                   .summary = "y = layers(x) + shortcut(x), or + x",
                   .options = options,
                   .options_size = sizeof(residual_options)},
    .reach = LK_REACH_ELEMENT,
    .build = residual_build,
    .forward = residual_forward,
    .samples = samples};
