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
    LK_TRY(lk__build_constant(
        build,
        (lk_param){.name = "recurrent_bias", .shape = LK_SHAPE(o->units), .cut = {o->units, 1}},
        false));
    return LK_OK;
}

/* *out = gate i of x + gate i of s. */
static lk_status gate_sum(const lk_layer_instance *layer, lk_var x, lk_var s, int i, lk_var *out)
{
    lk_var a, b;
    LK_TRY(lk__gate(layer, x, i, &a));
    LK_TRY(lk__gate(layer, s, i, &b));
    LK_TRY(lk_add(a, b, out));
    return LK_OK;
}

static lk_status gru_cell(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                          lk_var state[2])
{
    lk_var s, r, z, n, new;
    LK_TRY(lk_matmul(state[0], lk_pass_param(pass, layer, LK__RECURRENT), &s));
    LK_TRY(gate_sum(layer, x, s, 0, &r));
    LK_TRY(lk_sigmoid(r, &r));
    LK_TRY(gate_sum(layer, x, s, 1, &z));
    LK_TRY(lk_sigmoid(z, &z));
    LK_TRY(lk__gate(layer, s, 2, &n));
    LK_TRY(lk_add(n, lk_pass_param(pass, layer, LK__MORE), &n));
    LK_TRY(lk_mul(r, n, &n));
    LK_TRY(lk__gate(layer, x, 2, &new));
    LK_TRY(lk_add(new, n, &n));
    LK_TRY(lk_tanh(n, &n));
    LK_TRY(lk_sub(state[0], n, &new));
    LK_TRY(lk_mul(z, new, &new));
    LK_TRY(lk_add(n, new, &state[0]));
    return LK_OK;
}

static lk_status gru_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                             lk_var *out)
{
    LK_TRY(lk__recurrent_run(pass, layer, x, gru_cell, out));
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
    .flags = LK_LAYER_WEIGHT_REUSE,
    .build = gru_build,
    .forward = gru_forward,
    .samples = samples};
