/* Recurrent layers: what is before and behind their ops. */
#include "nn/recurrent.h"

#include "nn/model.h"

static lk_status recurrent_param(lk_build *build, const char *name, int64_t rows, int64_t columns,
                                 const lk_config *init, int gates)
{
    return LK_TRACE(lk_build_param(build, &(lk_param){.name = name,
                                                      .shape = LK_SHAPE(rows, columns),
                                                      .init = init,
                                                      .fan_in = rows,
                                                      .fan_out = columns / gates,
                                                      .cut = {columns / gates, 1}}));
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
    lk_build_features(build, LK_FEATURES_OUT);
    LK_CHECK(times < INT64_C(1) << 24, LK_ESHAPE, "%lld times", (long long)times);
    *out = (lk_tensor_type){in.dtype,
                            o->output == 1 ? LK_SHAPE(times, o->units) : LK_SHAPE(o->units)};
    return LK_OK;
}

lk_status lk__recurrent_begin(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                              lk__recurrent_in *in)
{
    const lk__recurrent_options *o = layer->options;
    *in = (lk__recurrent_in){.u = lk_pass_param(pass, layer, LK__RECURRENT),
                             .attr = {.reverse = o->reverse, .forget = o->forget}};
    LK_TRY(lk_linear(x, lk_pass_param(pass, layer, LK__WEIGHT),
                     lk_pass_param(pass, layer, LK__BIAS), &in->x));
    for (int i = 0; i < layer->n_carries; i++)
        LK_TRY(lk_pass_carry(pass, layer, i, &in->state[i]));
    return LK_OK;
}

/* Parameter `i` with the columns of all gates together, [rows][gates * held units]; rows 0: a vector. */
static lk_status gates_together(const lk_pass *pass, const lk_layer_instance *layer, int i,
                                int64_t rows, lk_var *out)
{
    int64_t count = 0;
    *out = lk_pass_param(pass, layer, i);
    lk_shape is = lk_shape_of(*out);
    LK_TRY(lk_shape_count(is, &count));
    lk_shape shape = rows > 0 ? LK_SHAPE(rows, count / rows) : LK_SHAPE(count);
    if (!lk_shape_is_equal(is, shape))
        LK_TRY(lk_reshape(*out, shape, out));
    return LK_OK;
}

lk_status lk__recurrent_split(const lk_pass *pass, const lk_layer_instance *layer,
                              lk_feature_cell cell, lk_var x, bool *done, lk_var *out)
{
    const lk__recurrent_options *o = layer->options;
    const lk_feature_part *f = lk_pass_features(pass, layer);
    lk_var param[4] = {LK_NO_VAR, LK_NO_VAR, LK_NO_VAR, LK_NO_VAR}, last[2], y;
    int64_t in = layer->in.shape.dim[1];
    *done = f && f->kind == LK_FEATURES_OUT;
    if (!*done)
        return LK_OK;
    lk_feature_recurrent_attr attr = {.cell = cell,
                                      .sum = f->sum,
                                      .in = in,
                                      .units = o->units,
                                      .recurrent = {.reverse = o->reverse, .forget = o->forget}};
    LK_CHECK(!pass->run->first && !pass->run->last, LK_ENOTSUP,
             "units that are cut into blocks carry nothing from one pass to the next: build the "
             "model with one block");
    LK_TRY(gates_together(pass, layer, LK__WEIGHT, in, &param[0]));
    LK_TRY(gates_together(pass, layer, LK__RECURRENT, o->units, &param[1]));
    LK_TRY(gates_together(pass, layer, LK__BIAS, 0, &param[2]));
    if (cell == LK_FEATURE_GRU)
        param[3] = lk_pass_param(pass, layer, LK__MORE);
    LK_TRY(lk_dist_feature_recurrent(f->split, &attr, x, param, NULL, layer->name, &y, last));
    *out = o->output == 1 ? y : last[0];
    return LK_OK;
}

void lk__recurrent_end(const lk_pass *pass, const lk_layer_instance *layer, lk_var y,
                       const lk_var *last, lk_var *out)
{
    const lk__recurrent_options *o = layer->options;
    for (int i = 0; i < layer->n_carries; i++)
        lk_pass_set_carry(pass, layer, i, last[i]);
    *out = o->output == 1 ? y : last[0];
}
