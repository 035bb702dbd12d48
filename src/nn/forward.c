/* A pass through a model: parameters become leaves, and each layer adds its ops. */
#include "base/failure.h"
#include "base/fpenv.h"
#include "nn/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

lk_var lk_pass_param(const lk_pass *pass, const lk_layer_instance *unit, int i)
{
    return pass->run->param[unit->param + i];
}

bool lk_pass_has_fused_relu(const lk_pass *pass)
{
    return pass->run->relu;
}

lk_rng lk_pass_rng(const lk_pass *pass, const lk_layer_instance *unit, const char *purpose)
{
    return lk_rng_start(pass->run->model->net->spec.seed, unit->name, purpose);
}

lk_status lk_pass_state(const lk_pass *pass, const lk_layer_instance *unit, int i, lk_var *out)
{
    LK_TRY(lk_constant(pass->tape, pass->run->model->net->state_of[unit->state + i], out));
    return LK_OK;
}

/* Say which layer failed, unless a layer within it has said so. */
static void unit_failed(const lk_pass *pass, const lk_layer_instance *unit)
{
    if (!pass->run->named)
        lk__error_prefix("layer %s: ", unit->name);
    pass->run->named = true;
}

/* Note the layer if its output is not finite, and no layer before was. */
static lk_status unit_watch(const lk_pass *pass, const lk_layer_instance *unit, lk_var y)
{
    struct lk__pass_run *run = pass->run;
    const lk_tensor *t = NULL;
    lk_tensor *flat = NULL;
    if (!run->bad || run->bad[0] || !lk_dtype_is_real(lk_dtype_of(y)))
        return LK_OK;
    LK_TRY(lk_value(y, &t));
    LK_TRY(lk_tensor_clone(t, LK_F64, &flat));
    const double *value = lk_tensor_data(flat);
    for (int64_t i = 0; i < lk_tensor_count(flat) && !run->bad[0]; i++)
        if (!isfinite(value[i]))
            snprintf(run->bad, run->bad_size, "%s", unit->name);
    lk_tensor_free(flat);
    return LK_OK;
}

extern const lk_layer lk__layer_relu;

static bool is_relu(const lk_layer_instance *unit)
{
    return unit && unit->layer == &lk__layer_relu;
}

static bool has(const lk_layer_instance *unit, unsigned flag)
{
    return unit && unit->layer->flags & flag;
}

/* How many of the layers from `i` on are applied at once: a relu goes with the layer behind it, or
 * else with the one before, where these can.  The bits are the same.  `*unit` is the layer that does
 * it.  Whoever watches sees the layers one by one. */
static int64_t join(const lk_pass *pass, const lk__list *list, int64_t i,
                    const lk_layer_instance **unit)
{
    const lk__net *net = pass->run->model->net;
    const lk_layer_instance *of[3] = {NULL};
    for (int64_t k = 0; k < 3 && i + k < list->n; k++)
        of[k] = &net->unit[list->unit[i + k]];
    *unit = of[0];
    if (pass->run->bad)
        return 1;
    if (is_relu(of[0]) && has(of[1], LK_LAYER_FUSES_RELU_BEFORE)) {
        *unit = of[1];
        return 2;
    }
    bool then = has(of[0], LK_LAYER_FUSES_RELU_AFTER) && is_relu(of[1]);
    return then && !has(of[2], LK_LAYER_FUSES_RELU_BEFORE) ? 2 : 1;
}

static lk_status list_run(const lk_pass *pass, const lk__list *list, lk_var x, lk_var *out)
{
    for (int64_t i = 0, n; i < list->n; i += n) {
        const lk_layer_instance *unit;
        n = join(pass, list, i, &unit);
        pass->run->relu = n > 1;
        lk_status st = unit->layer->forward(pass, unit, x, &x);
        if (st != LK_OK)
            unit_failed(pass, unit);
        LK_TRY(st);
        LK_TRY(unit_watch(pass, unit, x));
    }
    *out = x;
    return LK_OK;
}

lk_status lk_pass_layers(const lk_pass *pass, const lk_layer_instance *unit, int list, lk_var x,
                         lk_var *out)
{
    LK_FP_GUARD();
    LK_TRY(list_run(pass, &pass->run->model->net->list[unit->list[list]], x, out));
    return LK_OK;
}

/* Put the parameters on the tape, each use for itself: leaves whose gradients go to the sums, or
 * constants. */
static lk_status params_enter(const lk__net *net, const lk_pass *pass, lk_var *param)
{
    bool unset = pass->sums && pass->sums->unset;
    for (int64_t i = 0; i < net->n_uses; i++) {
        lk_tensor *value = net->param[net->use[i].param];
        if (unset)
            LK_TRY(lk_leaf_overwrite(pass->tape, value, pass->sums->grad[i], &param[i]));
        else if (pass->sums)
            LK_TRY(lk_leaf(pass->tape, value, pass->sums->grad[i], &param[i]));
        else
            LK_TRY(lk_constant(pass->tape, value, &param[i]));
    }
    if (unset)
        pass->sums->unset = false;
    return LK_OK;
}

static lk_status model_run(lk_model *model, const lk_pass *pass, lk_var x, struct lk__pass_run *run,
                           lk_var *out)
{
    *out = LK_NO_VAR;
    LK_CHECK(model && pass && pass->tape, LK_EINVAL, "model, pass or tape is NULL");
    LK_TRY(lk__model_check_whole(model));
    LK_CHECK(!pass->sums || pass->sums->model == model, LK_EINVAL,
             "the sums belong to another model");
    lk_tensor_type in = model->net->spec.in;
    lk_shape got = lk_shape_of(x), want = {.ndim = in.shape.ndim + 1, .dim = {got.dim[0]}};
    memcpy(&want.dim[1], in.shape.dim, (size_t)in.shape.ndim * sizeof want.dim[0]);
    LK_CHECK(lk_shape_is_equal(got, want) && lk_dtype_of(x) == in.dtype, LK_ESHAPE,
             "the model takes samples of %s%s, not x of %s%s", lk_dtype_name(in.dtype),
             lk_shape_text(in.shape).s, lk_dtype_name(lk_dtype_of(x)), lk_shape_text(got).s);
    run->model = model;
    run->param = pass->sums ? pass->sums->values : model->values;
    lk_pass inner = *pass;
    inner.run = run;
    LK_TRY(params_enter(model->net, pass, run->param));
    LK_TRY(list_run(&inner, &model->net->list[0], x, out));
    return LK_OK;
}

lk_status lk_model_forward(lk_model *model, const lk_pass *pass, lk_var x, lk_var *out)
{
    LK_FP_GUARD();
    LK_TRY(model_run(model, pass, x, &(struct lk__pass_run){.bad = NULL}, out));
    return LK_OK;
}

lk_status lk_model_find_nonfinite(lk_model *model, const lk_pass *pass, lk_var x, char *layer,
                                  size_t size, lk_var *out)
{
    LK_FP_GUARD();
    LK_CHECK(layer && size > 0, LK_EINVAL, "no room for the layer's name");
    layer[0] = '\0';
    LK_TRY(model_run(model, pass, x, &(struct lk__pass_run){.bad = layer, .bad_size = size}, out));
    return LK_OK;
}
