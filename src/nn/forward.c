/* lk_model_forward(): one pass through the layers of a model.  Parameters become leaves of the tape,
 * and each layer adds its ops.
 *
 * Trainers call it for each micro-batch, on the thread of the tape; what layers ask of the pass from
 * their `forward` is in pass.c.
 */
#include "base/failure.h"
#include "base/fpenv.h"
#include "nn/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Say which layer failed, unless a layer within it has said so. */
static void layer_failed(const lk_pass *pass, const lk_layer_instance *instance)
{
    if (!pass->run->named)
        lk__error_prefix("layer %s: ", instance->name);
    pass->run->named = true;
}

/* What the rank itself has of a layer's output, in f64: of a held box the tile. */
static lk_status own_part(const lk_pass *pass, const lk_layer_instance *instance,
                          const lk_tensor *y, lk_tensor **out)
{
    lk_tensor *part = NULL, *next = NULL;
    bool tiles = lk__pass_by_tile(pass, instance) && lk_tensor_shape(y).ndim > 2;
    const lk_held *held = tiles ? &lk__pass_part(pass, instance)->tile->y : NULL;
    lk_status st = lk_tensor_slice(y, 0, 0, lk_tensor_shape(y).dim[0], 1, &part);
    for (int d = 0; st == LK_OK && tiles && d < held->box.ndim; d++) {
        int64_t first = held->tile.first[d] - held->box.first[d];
        bool none = held->tile.n[d] == 0;
        st = lk_tensor_slice(part, d + 1, none ? 0 : first, none ? 0 : first + held->tile.n[d], 1,
                             &next);
        lk_tensor_free(part);
        part = next;
        next = NULL;
    }
    if (st == LK_OK)
        st = lk_tensor_clone(part, LK_F64, out);
    lk_tensor_free(part);
    LK_TRY(st);
    return LK_OK;
}

/* Note the layer if its output is not finite, and no layer before was. */
static lk_status layer_check_finite(const lk_pass *pass, const lk_layer_instance *instance,
                                    lk_var y)
{
    struct lk__pass_run *run = pass->run;
    const lk_tensor *t = NULL;
    lk_tensor *flat = NULL;
    if (!run->bad || run->bad[0] || !lk_dtype_is_real(lk_dtype_of(y)))
        return LK_OK;
    LK_TRY(lk_value(y, &t));
    LK_TRY(own_part(pass, instance, t, &flat));
    const double *value = lk_tensor_data(flat);
    for (int64_t i = 0; i < lk_tensor_count(flat) && !run->bad[0]; i++)
        if (!isfinite(value[i]))
            snprintf(run->bad, run->bad_size, "%s", instance->name);
    lk_tensor_free(flat);
    return LK_OK;
}

extern const lk_layer lk__layer_relu;

static bool is_relu(const lk_layer_instance *instance)
{
    return instance->layer == &lk__layer_relu;
}

static bool has(const lk_layer_instance *instance, unsigned flag)
{
    return instance->layer->flags & flag;
}

/* Whether the value changes between tiles and samples before a layer, or behind it. */
static bool changes(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk_layer_part *part = lk__pass_part(pass, instance);
    return part && (part->before != LK_STAY || part->after != LK_STAY);
}

/* How many of the layers from `i` on are applied at once: a relu goes with the layer behind it, or
 * else with the one before, where these can.  The bits are the same.  `*instance` is the layer that does
 * it.  Whoever watches sees the layers one by one. */
static int64_t join(const lk_pass *pass, const lk__list *list, int64_t i, int64_t end,
                    const lk_layer_instance **instance)
{
    const lk__net *net = pass->run->model->net;
    const lk_layer_instance *first = &net->instance[list->instance[i]], *of[3] = {first};
    *instance = first;
    if (pass->run->bad)
        return 1;
    for (int64_t k = 1; k < 3 && i + k < end; k++) {
        const lk_layer_instance *next = &net->instance[list->instance[i + k]];
        if (changes(pass, of[k - 1]) || changes(pass, next))
            break;
        of[k] = next;
    }
    if (of[1] && is_relu(of[0]) && has(of[1], LK_LAYER_FUSES_RELU_BEFORE)) {
        *instance = of[1];
        return 2;
    }
    bool then = of[1] && has(of[0], LK_LAYER_FUSES_RELU_AFTER) && is_relu(of[1]);
    return then && !(of[2] && has(of[2], LK_LAYER_FUSES_RELU_BEFORE)) ? 2 : 1;
}

/* From tiles to whole samples, or back, at an end of a layer. */
static lk_status change(const lk_pass *pass, const lk_layer_instance *instance, bool before,
                        lk_var *x)
{
    if (!pass->parts)
        return LK_OK;
    const lk_pass_parts *parts = pass->parts;
    const lk_layer_part *part = lk__pass_part(pass, instance);
    lk_change what = before ? part->before : part->after;
    const lk_tile *at = before ? part->before_at : part->after_at;
    if (what == LK_TO_SAMPLES)
        LK_TRY(lk_dist_tiles_to_samples(at, *x, parts->samples, instance->name, x));
    else if (what == LK_TO_TILES)
        LK_TRY(lk_dist_samples_to_tiles(at, *x, parts->samples, instance->name, x));
    return LK_OK;
}

/* The forward of a layer.  One over windows that runs by tiles has to ask which tile it has: the plain op
 * would take the margin of its input, which nobody has fetched, for values. */
static lk_status forward_run(const lk_pass *pass, const lk_layer_instance *instance, lk_var x,
                             lk_var *out)
{
    struct lk__pass_run *run = pass->run;
    bool around = run->asked; /* by the layer whose list this one is in */
    run->asked = false;
    LK_TRY(instance->layer->forward(pass, instance, x, out));
    bool asked = run->asked;
    run->asked = around;
    LK_CHECK(
        asked || instance->window.ndim == 0 || !lk__pass_by_tile(pass, instance), LK_EINVAL,
        "a %s goes over windows (lk_build_window()) and runs by tiles here, but its forward "
        "did not ask for its tile, so its values at the borders of tiles would be wrong: call "
        "lk_pass_tile() and compute with lk_dist_tile_*(), or leave out lk_build_window(), and "
        "it works by samples",
        instance->layer->descriptor.name);
    return LK_OK;
}

static lk_status layer_run(const lk_pass *pass, const lk_layer_instance *instance, lk_var x,
                           lk_var *out)
{
    LK_TRY(change(pass, instance, true, &x));
    LK_TRY(forward_run(pass, instance, x, out));
    /* A margin is fetched once, into the array that all read. */
    if (lk__pass_by_tile(pass, instance))
        LK_TRY(lk_contiguous(*out, out));
    LK_TRY(change(pass, instance, false, out));
    return LK_OK;
}

lk_status lk__list_run(const lk_pass *pass, const lk__list *list, lk_range layers, lk_var x,
                       lk_var *out)
{
    int64_t end = layers.first + layers.n;
    for (int64_t i = layers.first, n; i < end; i += n) {
        const lk_layer_instance *instance;
        n = join(pass, list, i, end, &instance);
        pass->run->relu = n > 1;
        lk_status st = layer_run(pass, instance, x, &x);
        if (st != LK_OK)
            layer_failed(pass, instance);
        LK_TRY(st);
        LK_TRY(layer_check_finite(pass, instance, x));
    }
    *out = x;
    return LK_OK;
}

lk_status lk_pass_layers(const lk_pass *pass, const lk_layer_instance *instance, int list, lk_var x,
                         lk_var *out)
{
    LK_FP_GUARD();
    const lk__list *layers = &pass->run->model->net->list[instance->list[list]];
    LK_TRY(lk__list_run(pass, layers, (lk_range){0, layers->n}, x, out));
    return LK_OK;
}

/* Put the parameters on the tape, each use for itself: leaves whose gradients go to the accumulator, or
 * constants, as frozen ones always are. */
static lk_status params_enter(const lk__net *net, const lk_pass *pass, lk_var *param)
{
    bool overwrite = pass->accumulator && pass->accumulator->overwrite;
    for (int64_t i = 0; i < net->n_uses; i++) {
        lk_tensor *value = net->param[net->use[i].param], *grad = NULL;
        if (pass->accumulator)
            grad = pass->accumulator->grad[i];
        if (pass->accumulator && pass->accumulator->leaf[i]) {
            LK_TRY(lk__accumulator_each(pass->accumulator, i, &value));
            grad = pass->accumulator->leaf[i];
        }
        if (net->start[net->use[i].param].frozen)
            LK_TRY(lk_constant(pass->tape, value, &param[i]));
        else if (overwrite)
            LK_TRY(lk_leaf_overwrite(pass->tape, value, grad, &param[i]));
        else if (pass->accumulator)
            LK_TRY(lk_leaf(pass->tape, value, grad, &param[i]));
        else
            LK_TRY(lk_constant(pass->tape, value, &param[i]));
    }
    if (overwrite)
        pass->accumulator->overwrite = false;
    return LK_OK;
}

lk_status lk__model_enter_params(lk_model *model, const lk_pass *pass, const lk_var **out)
{
    lk_var *values = pass->accumulator ? pass->accumulator->values : model->values;
    LK_TRY(params_enter(model->net, pass, values));
    *out = values;
    return LK_OK;
}

/* run->param is where the parameters of a pass without an accumulator go. */
static lk_status model_run(lk_model *model, const lk_pass *pass, lk_var x, struct lk__pass_run *run,
                           lk_var *out)
{
    *out = LK_NO_VAR;
    LK_CHECK(pass && pass->tape, LK_EINVAL, "pass or tape is NULL");
    LK_TRY(lk__model_check_parts(model, pass->parts));
    LK_CHECK(!pass->accumulator || pass->accumulator->model == model, LK_EINVAL,
             "the accumulator belongs to another model");
    lk_tensor_type in = model->net->spec.in;
    lk_shape got = lk_shape_of(x), want = {.ndim = in.shape.ndim + 1, .dim = {got.dim[0]}};
    memcpy(&want.dim[1], in.shape.dim, (size_t)in.shape.ndim * sizeof want.dim[0]);
    if (pass->parts && pass->parts->in)
        memcpy(&want.dim[1], pass->parts->in->box.n,
               (size_t)pass->parts->in->box.ndim * sizeof want.dim[0]);
    LK_CHECK(lk_shape_is_equal(got, want) && lk_dtype_of(x) == in.dtype, LK_ESHAPE,
             "the model takes samples of %s%s, not x of %s%s", lk_dtype_name(in.dtype),
             lk_shape_text(in.shape).s, lk_dtype_name(lk_dtype_of(x)), lk_shape_text(got).s);
    run->model = model;
    run->samples = got.dim[0];
    if (pass->accumulator)
        run->param = pass->accumulator->values;
    lk_pass inner = *pass;
    inner.run = run;
    LK_TRY(params_enter(model->net, pass, run->param));
    const lk__list *layers = &model->net->list[0];
    if (pass->recompute > 1 && pass->accumulator && !run->bad && !run->last)
        LK_TRY(lk__segments_run(&inner, x, out));
    else
        LK_TRY(lk__list_run(&inner, layers, (lk_range){0, layers->n}, x, out));
    return LK_OK;
}

lk_status lk_model_forward(lk_model *model, const lk_pass *pass, lk_var x, lk_var *out)
{
    LK_FP_GUARD();
    LK_CHECK(model, LK_EINVAL, "model is NULL");
    LK_TRY(lk__model_forward_in(model, pass, model->values, x, out));
    return LK_OK;
}

lk_status lk__model_forward_in(lk_model *model, const lk_pass *pass, lk_var *values, lk_var x,
                               lk_var *out)
{
    LK_FP_GUARD();
    LK_TRY(model_run(model, pass, x, &(struct lk__pass_run){.param = values}, out));
    return LK_OK;
}

/* Whether values are the carry of so many samples. */
static lk_status carry_check(const lk__net *net, const lk_list *list, int64_t samples)
{
    LK_CHECK(list->n == net->n_carries && (list->at || list->n == 0), LK_EINVAL,
             "the model carries %lld values from one time to the next, and gets %d",
             (long long)net->n_carries, list->n);
    for (int i = 0; i < list->n; i++) {
        lk_shape want = lk__carry_shape(&net->carry[i], samples);
        LK_CHECK(lk_is_var(list->at[i]), LK_EINVAL, "carry %s is no value", net->carry[i].name);
        LK_CHECK(lk_shape_is_equal(lk_shape_of(list->at[i]), want) &&
                     lk_dtype_of(list->at[i]) == net->spec.dtype,
                 LK_ESHAPE, "carry %s must be %s%s, not %s%s", net->carry[i].name,
                 lk_dtype_name(net->spec.dtype), lk_shape_text(want).s,
                 lk_dtype_name(lk_dtype_of(list->at[i])),
                 lk_shape_text(lk_shape_of(list->at[i])).s);
    }
    return LK_OK;
}

lk_status lk_model_forward_carry(lk_model *model, const lk_pass *pass, lk_var x,
                                 const lk_list *first, lk_list *last, lk_var *out)
{
    LK_FP_GUARD();
    struct lk__pass_run run = {.first = first, .last = last};
    LK_CHECK(model && out, LK_EINVAL, "model or out is NULL");
    LK_TRY(lk__model_check_whole(model));
    const lk__net *net = model->net;
    LK_TRY(lk__model_check_recurrent(model));
    run.param = model->values;
    LK_CHECK(!first || !last || first->at != last->at, LK_EINVAL,
             "`first` and `last` are the same list");
    LK_CHECK(!last || last->room >= net->n_carries, LK_EINVAL,
             "the model carries %lld values, and the list has room for %d",
             (long long)net->n_carries, last->room);
    if (first)
        LK_TRY(carry_check(net, first, lk_shape_of(x).dim[0]));
    for (int i = 0; last && i < net->n_carries; i++)
        last->at[i] = LK_NO_VAR;
    LK_TRY(model_run(model, pass, x, &run, out));
    if (last) {
        last->n = (int)net->n_carries;
        LK_TRY(carry_check(net, last, run.samples));
    }
    return LK_OK;
}

lk_status lk_model_find_nonfinite(lk_model *model, const lk_pass *pass, lk_var x, char *layer,
                                  size_t size, lk_var *out)
{
    LK_FP_GUARD();
    LK_CHECK(model, LK_EINVAL, "model is NULL");
    LK_CHECK(layer && size > 0, LK_EINVAL, "no room for the layer's name");
    layer[0] = '\0';
    LK_TRY(model_run(model, pass, x,
                     &(struct lk__pass_run){.param = model->values, .bad = layer, .bad_size = size},
                     out));
    return LK_OK;
}
