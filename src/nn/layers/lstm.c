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
    return LK_TRACE(lk_build_carry(build, "c", LK_SHAPE(o->units)));
}

static lk_status lstm_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk_var *out)
{
    lk__recurrent_in in;
    bool done;
    lk_var y, last[2];
    LK_TRY(lk__recurrent_split(pass, layer, LK_FEATURE_LSTM, x, &done, out));
    if (done)
        return LK_OK;
    LK_TRY(lk__recurrent_begin(pass, layer, x, &in));
    LK_TRY(lk_lstm(in.x, in.u, in.state[0], in.state[1], &in.attr, &y, last));
    lk__recurrent_end(pass, layer, y, last, out);
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
    .flags = LK_LAYER_SCATTERS,
    .build = lstm_build,
    .forward = lstm_forward,
    .samples = samples};
