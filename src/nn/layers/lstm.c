/* lstm: gates i, f, g, o of x w + b + h' u, in this order:
 *
 *     c = sigmoid(f) c' + sigmoid(i) tanh(g)        h = sigmoid(o) tanh(c)
 */
#include "nn/recurrent.h"

static const lk_option options[] = {
    LK__RECURRENT_OPTIONS,
    {"forget", LK_OPTION_REAL, offsetof(lk__recurrent_options, forget), .def = "1", .min = -1e9,
     .max = 1e9, .help = "added to the forget gate f, so that it begins open"},
    {0}};

static lk_status lstm_build(lk_build *build, const void *opt, lk_tensor_type in,
                            lk_tensor_type *out)
{
    const lk__recurrent_options *o = opt;
    LK_TRY(lk__recurrent_build(build, o, in, 4, out));
    LK_TRY(lk_build_carry(build, "c", LK_SHAPE(o->units)));
    return LK_OK;
}

static lk_status lstm_cell(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                           lk_var state[2])
{
    const lk__recurrent_options *o = layer->options;
    lk_var gates, i, f, g, open, c;
    LK_TRY(lk_matmul(state[0], lk_pass_param(pass, layer, LK__RECURRENT), &gates));
    LK_TRY(lk_add(x, gates, &gates));
    LK_TRY(lk__gate(layer, gates, 0, &i));
    LK_TRY(lk__gate(layer, gates, 1, &f));
    LK_TRY(lk__gate(layer, gates, 2, &g));
    LK_TRY(lk__gate(layer, gates, 3, &open));
    LK_TRY(lk_affine(f, 1, o->forget, &f));
    LK_TRY(lk_sigmoid(f, &f));
    LK_TRY(lk_mul(f, state[1], &c));
    LK_TRY(lk_sigmoid(i, &i));
    LK_TRY(lk_tanh(g, &g));
    LK_TRY(lk_mul(i, g, &g));
    LK_TRY(lk_add(c, g, &state[1]));
    LK_TRY(lk_sigmoid(open, &open));
    LK_TRY(lk_tanh(state[1], &c));
    LK_TRY(lk_mul(open, c, &state[0]));
    return LK_OK;
}

static lk_status lstm_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    LK_TRY(lk__recurrent_run(pass, layer, x, lstm_cell, out));
    return LK_OK;
}

static const lk_layer_sample samples[] = {{"units=3", LK_DIMS(4, 2), 0},
                                          {"units=2 output=all reverse=true", LK_DIMS(3, 3), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_lstm = {
    .descriptor = {.name = "lstm",
                   .summary = "long short-term memory: c = f c' + i g, h = o tanh(c)",
                   .options = options,
                   .options_size = sizeof(lk__recurrent_options)},
    .flags = LK_LAYER_WEIGHT_REUSE,
    .build = lstm_build,
    .forward = lstm_forward,
    .samples = samples};
