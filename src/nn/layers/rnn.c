/* rnn: h = tanh(x w + b + h' u), h' being the state before. */
#include "nn/recurrent.h"

static const lk_option options[] = {LK__RECURRENT_OPTIONS, {0}};

static lk_status rnn_build(lk_build *build, const void *opt, lk_tensor_type in, lk_tensor_type *out)
{
    return LK_TRACE(lk__recurrent_build(build, opt, in, 1, out));
}

static lk_status rnn_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    lk__recurrent_in in;
    bool done;
    lk_var y, last[2];
    LK_TRY(lk__recurrent_split(pass, layer, LK_FEATURE_RNN, x, &done, out));
    if (done)
        return LK_OK;
    LK_TRY(lk__recurrent_begin(pass, layer, x, &in));
    LK_TRY(lk_rnn(in.x, in.u, in.state[0], &in.attr, &y, last));
    lk__recurrent_end(pass, layer, y, last, out);
    return LK_OK;
}

static const lk_layer_sample samples[] = {{"units=3", LK_DIMS(4, 2), 0},
                                          {"units=2 output=all reverse=true", LK_DIMS(3, 3), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_rnn = {.descriptor = {.name = "rnn",
                                               .summary = "h = tanh(x w + b + h' u), time by time",
                                               .options = options,
                                               .options_size = sizeof(lk__recurrent_options)},
                                .flags = LK_LAYER_SCATTERS,
                                .build = rnn_build,
                                .forward = rnn_forward,
                                .samples = samples};
