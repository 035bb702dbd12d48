/* Recurrent layers: time by time.
 *
 * The times of a value are taken apart by halves, so that backward puts them together again in
 * log(times) passes over it and not in one for each.
 */
#include "nn/recurrent.h"

#include "autograd/guest.h"

#include <lockstep/op.h>

static lk_status recurrent_param(lk_build *build, const char *name, int64_t rows, int64_t columns,
                                 const lk_config *init, int gates)
{
    LK_TRY(lk_build_param(build, &(lk_param){.name = name,
                                             .shape = LK_SHAPE(rows, columns),
                                             .init = init,
                                             .fan_in = rows,
                                             .fan_out = columns / gates,
                                             .cut = {columns / gates, 1}}));
    return LK_OK;
}

lk_status lk__recurrent_build(lk_build *build, const lk__recurrent_options *o, lk_tensor_type in,
                              int gates, lk_tensor_type *out)
{
    LK_TRY(lk__build_check(build, in, 2));
    LK_CHECK(in.shape.ndim == 2, LK_ESHAPE, "the input %s must be times and features",
             lk_shape_text(in.shape).s);
    int64_t times = in.shape.dim[0], wide = gates * o->units;
    LK_TRY(recurrent_param(build, "weight", in.shape.dim[1], wide, &o->init, gates));
    LK_TRY(recurrent_param(build, "recurrent", o->units, wide, &o->recurrent_init, gates));
    LK_TRY(lk__build_constant(
        build, (lk_param){.name = "bias", .shape = LK_SHAPE(wide), .cut = {o->units, 1}}, false));
    LK_TRY(lk_build_carry(build, "h", LK_SHAPE(o->units)));
    LK_CHECK(times < INT64_C(1) << 24, LK_ESHAPE, "%lld times", (long long)times);
    *out = (lk_tensor_type){in.dtype,
                            o->output == 1 ? LK_SHAPE(times, o->units) : LK_SHAPE(o->units)};
    return LK_OK;
}

lk_status lk__gate(const lk_layer_instance *layer, lk_var gates, int i, lk_var *out)
{
    int64_t units = ((const lk__recurrent_options *)layer->options)->units;
    LK_TRY(lk_slice(gates, 1, i * units, (i + 1) * units, 1, out));
    return LK_OK;
}

/* time[0 ... n-1] = the times of x [samples, n, ...], each [samples, ...]. */
static lk_status times_apart(lk_var x, int64_t n, lk_var *time)
{
    lk_shape shape = lk_shape_of(x);
    if (n == 1) {
        LK_TRY(lk_reshape(x, LK_SHAPE(shape.dim[0], shape.dim[2]), time));
        return LK_OK;
    }
    lk_var half;
    LK_TRY(lk_slice(x, 1, 0, n / 2, 1, &half));
    LK_TRY(times_apart(half, n / 2, time));
    LK_TRY(lk_slice(x, 1, n / 2, n, 1, &half));
    LK_TRY(times_apart(half, n - n / 2, time + n / 2));
    return LK_OK;
}

lk_status lk__recurrent_run(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                            lk__cell *cell, lk_var *out)
{
    const lk__recurrent_options *o = layer->options;
    int64_t n = layer->in.shape.dim[0];
    lk_var *time = NULL, gates, state[2];
    LK_TRY(lk__tape_room(pass->tape, n * (int64_t)sizeof *time, &time));
    LK_TRY(lk_linear(x, lk_pass_param(pass, layer, LK__WEIGHT),
                     lk_pass_param(pass, layer, LK__BIAS), &gates));
    if (n > 0)
        LK_TRY(times_apart(gates, n, time));
    for (int i = 0; i < layer->n_carries; i++)
        LK_TRY(lk_pass_carry(pass, layer, i, &state[i]));
    for (int64_t t = 0; t < n; t++) {
        int64_t at = o->reverse ? n - 1 - t : t;
        LK_TRY(cell(pass, layer, time[at], state));
        time[at] = state[0];
    }
    for (int i = 0; i < layer->n_carries; i++)
        lk_pass_set_carry(pass, layer, i, state[i]);
    if (o->output == 1 &&
        n == 0) /* nothing, that depends on x and the parameters as if there were more */
        LK_TRY(lk_slice(gates, 2, 0, o->units, 1, out));
    else if (o->output == 1)
        LK_TRY(lk_stack(time, (int)n, 1, out));
    else
        *out = state[0];
    return LK_OK;
}
