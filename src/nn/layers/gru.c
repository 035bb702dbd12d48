/* gru: gates r, z, n, in this order, x for x w + b and s for h' u:
 *
 *     r = sigmoid(x_r + s_r)    z = sigmoid(x_z + s_z)    n = tanh(x_n + r (s_n + b'))
 *     h = n + z (h' - n)
 */
#include "nn/recurrent.h"

static const lk_option options[] = {LK__RECURRENT_OPTIONS, {0}};

static lk_status gru_build(lk_build *build, const void *opt, lk_tensor_type in, lk_tensor_type *out)
{
    const lk__recurrent_options *o = opt;
    LK_TRY(lk__recurrent_build(build, o, in, 3, out));
    return LK_TRACE(lk__build_constant(
        build,
        (lk_param){.name = "recurrent_bias", .shape = LK_SHAPE(o->units), .cut = {o->units, 1}},
        false));
}

static lk_status gru_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    lk__recurrent_in in;
    bool done;
    lk_var y, last[2];
    LK_TRY(lk__recurrent_split(pass, layer, LK_FEATURE_GRU, x, &done, out));
    if (done)
        return LK_OK;
    LK_TRY(lk__recurrent_begin(pass, layer, x, &in));
    LK_TRY(
        lk_gru(in.x, in.u, in.state[0], lk_pass_param(pass, layer, LK__MORE), &in.attr, &y, last));
    lk__recurrent_end(pass, layer, y, last, out);
    return LK_OK;
}

static const lk_layer_sample samples[] = {{"units=3", LK_DIMS(4, 2), 0},
                                          {"units=2 output=all reverse=true", LK_DIMS(3, 3), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_gru = {
    .descriptor = {.name = "gru",
                   .summary = "gated recurrent unit: h = n + z (h' - n), time by time",
                   .options = options,
                   .options_size = sizeof(lk__recurrent_options)},
    .flags = LK_LAYER_SCATTERS,
    .build = gru_build,
    .forward = gru_forward,
    .samples = samples};
