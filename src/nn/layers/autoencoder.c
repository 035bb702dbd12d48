/* autoencoder: y = encode(x), and a term: the loss of decode(y) against x.
 *
 * The term (nn.h) is what y is trained by, alone or beside the loss of the run: how well `decode` finds x again.
 * x is its target and a constant there; gradients reach the layers before by way of y.  Where the term does
 * not count, `decode` does not run.
 *
 *     {type: autoencoder, name: code, encode: [{type: linear, units: 30, name: in}, sigmoid],
 *      decode: [{type: linear, units: 784, transpose: true, tie: code.in.weight}]}
 */
#include "nn/layers.h"

#include <lockstep/loss.h>

typedef struct autoencoder_options {
    lk_configs encode, decode;
    lk_config loss;
    double weight;
} autoencoder_options;

static const lk_option options[] = {
    {"encode", LK_OPTION_CONFIGS, offsetof(autoencoder_options, encode),
     .registry = &lk_registry_layer, .flags = LK_OPTION_REQUIRED, .help = "what y is made by"},
    {"decode", LK_OPTION_CONFIGS, offsetof(autoencoder_options, decode),
     .registry = &lk_registry_layer, .flags = LK_OPTION_REQUIRED,
     .help = "what makes x of y again; a layer there can share what one of `encode` has: tie "
             "gives NAME.LAYER.weight, NAME being this layer's"},
    {"loss", LK_OPTION_CONFIG, offsetof(autoencoder_options, loss), .registry = &lk_registry_loss,
     .def = "sum_squared_error", .help = "of decode(y) against x"},
    {"weight", LK_OPTION_REAL, offsetof(autoencoder_options, weight), .def = "1",
     .help = "what the term is taken by"},
    {0}};

enum { ENCODE, DECODE };

static lk_status autoencoder_build(lk_build *build, const void *opt, lk_tensor_type in,
                                   lk_tensor_type *out)
{
    const autoencoder_options *o = opt;
    lk_tensor_type again;
    LK_TRY(lk_build_layers(build, "", &o->encode, in, out));
    LK_TRY(lk_build_layers(build, "decode", &o->decode, *out, &again));
    LK_CHECK(again.dtype == in.dtype && lk_shape_is_equal(again.shape, in.shape), LK_ESHAPE,
             "decode gives %s%s of what encode makes, %s, and not x again, which is %s%s",
             lk_dtype_name(again.dtype), lk_shape_text(again.shape).s, lk_shape_text(out->shape).s,
             lk_dtype_name(in.dtype), lk_shape_text(in.shape).s);
    return LK_TRACE(lk_build_term(
        build, &(lk_term){.loss = &o->loss, .of = in, .weight = o->weight, .lists = 1}));
}

static lk_status autoencoder_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                     lk_var *out)
{
    lk_var again, target;
    LK_TRY(lk_pass_layers(pass, layer, ENCODE, x, out));
    if (!lk_pass_counts(pass, layer))
        return LK_OK;
    LK_TRY(lk_pass_layers(pass, layer, DECODE, *out, &again));
    LK_TRY(lk_stop_gradient(x, &target));
    return LK_TRACE(lk_pass_term(pass, layer, again, target));
}

static const lk_layer_sample samples[] = {
    {"encode=linear(units=3),tanh decode=linear(units=4)", LK_DIMS(4), 0},
    {"encode=linear(units=2 name=in) decode=linear(units=3 transpose=true "
     "tie=autoencoder1.in.weight) weight=0.5",
     LK_DIMS(3), 0},
    {"encode=conv(filters=3 kernel=3 padding=1) decode=conv(filters=2 kernel=3 padding=1) "
     "loss=mean_squared_error",
     LK_DIMS(4, 5, 2), 0},
    {.shape = {.ndim = -1}}};

const lk_layer lk__layer_autoencoder = {
    .descriptor = {.name = "autoencoder",
                   .summary = "y = encode(x), and a term: the loss of decode(y) against x",
                   .options = options,
                   .options_size = sizeof(autoencoder_options)},
    .flags = LK_LAYER_LISTS_FOLLOW,
    .reach = LK_REACH_ELEMENT,
    .build = autoencoder_build,
    .forward = autoencoder_forward,
    .samples = samples};
