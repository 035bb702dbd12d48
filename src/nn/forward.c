/* lk_model_forward(): one pass through the layers of a model.  Parameters become leaves of the tape,
 * and each layer adds its ops.
 *
 * Trainers call it for each micro-batch, on the thread of the tape; what layers ask of the pass from
 * their `forward` is in pass.c.
 */
#include "base/fpenv.h"
#include "nn/model.h"

#include <string.h>

/* Put the parameters of some layers on the tape, each use for itself: leaves whose gradients go to the
 * accumulator, or constants, as frozen ones always are. */
static lk_status params_enter(const lk_model *model, const lk_pass *pass, lk_range layers,
                              lk_var *param)
{
    const lk__net *net = model->net;
    bool overwrite = pass->accumulator && pass->accumulator->overwrite;
    for (int64_t i = 0; i < net->n_uses; i++) {
        param[i] = LK_NO_VAR;
        if (!lk__range_has(layers, net->use[i].layer))
            continue;
        lk_tensor *value = net->param[net->use[i].param], *grad = NULL;
        lk_accumulator *to = pass->accumulator;
        if (to && lk__use_leaves(model, &to->leaves, i) > 0)
            LK_TRY(lk__accumulator_each(to, i, &value));
        if (to && to->grad) /* an observer is told later */
            grad = to->leaf[i] ? to->leaf[i] : to->grad[i];
        if (net->start[net->use[i].param].frozen)
            LK_TRY(lk_constant(pass->tape, value, &param[i]));
        else if (overwrite && grad)
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
    LK_TRY(params_enter(model, pass, (lk_range){0, model->net->list[0].n}, values));
    *out = values;
    return LK_OK;
}

/* Run the first layers that nothing moves in without a record: backward ends above them. */
static lk_status still_run(const lk_pass *pass, lk_range *layers, lk_var *x)
{
    const lk_model *model = pass->run->model;
    int64_t n = pass->accumulator && !lk_needs_grad(*x) ? lk__model_still(model) : 0;
    n = n < layers->first ? 0 : n - layers->first < layers->n ? n - layers->first : layers->n;
    if (n == 0)
        return LK_OK;
    bool recorded = lk_tape_set_recording(pass->tape, false);
    lk_status st = lk__list_run(pass, &model->net->list[0], (lk_range){layers->first, n}, *x, x);
    (void)lk_tape_set_recording(pass->tape, recorded);
    LK_TRY(st);
    *layers = (lk_range){layers->first + n, layers->n - n};
    return LK_OK;
}

/* The layers of the list that a pass runs: all that its terms want, or of a stage those of them. */
static lk_status layers_find(const lk_model *model, const lk_pass *pass, lk_range *out)
{
    int64_t n = model->net->list[0].n;
    const lk_range *stage = &pass->layers;
    LK_TRY(lk__terms_begin(model, pass, out));
    if (stage->n == 0)
        return LK_OK;
    LK_CHECK(stage->first >= 0 && stage->n > 0 && stage->n <= n && stage->first <= n - stage->n,
             LK_EINVAL, "a pass over %lld layers from number %lld on, of a model of %lld",
             (long long)stage->n, (long long)stage->first, (long long)n);
    int64_t end = stage->first + stage->n < out->n ? stage->first + stage->n : out->n;
    *out = (lk_range){stage->first, end > stage->first ? end - stage->first : 0};
    return LK_OK;
}

/* Whether x is what the layers take. */
static lk_status input_check(const lk__net *net, const lk_pass *pass, lk_range layers, lk_var x)
{
    lk_tensor_type in = layers.first > 0 ? net->instance[net->list[0].instance[layers.first]].in
                                         : net->spec.in;
    lk_shape got = lk_shape_of(x), want = {.ndim = in.shape.ndim + 1, .dim = {got.dim[0]}};
    memcpy(&want.dim[1], in.shape.dim, (size_t)in.shape.ndim * sizeof want.dim[0]);
    if (pass->parts && pass->parts->in)
        memcpy(&want.dim[1], pass->parts->in->box.n,
               (size_t)pass->parts->in->box.ndim * sizeof want.dim[0]);
    if (pass->parts && pass->parts->in_features)
        want.dim[want.ndim - 1] = pass->parts->in_features->n;
    LK_CHECK(lk_shape_is_equal(got, want) && lk_dtype_of(x) == in.dtype, LK_ESHAPE,
             "the model takes samples of %s%s, not x of %s%s", lk_dtype_name(in.dtype),
             lk_shape_text(in.shape).s, lk_dtype_name(lk_dtype_of(x)), lk_shape_text(got).s);
    return LK_OK;
}

lk_status lk_model_forward(lk_model *model, const lk_pass *pass, lk_var x, lk_var *out)
{
    LK_FP_GUARD();
    LK_CHECK(model, LK_EINVAL, "model is NULL");
    *out = LK_NO_VAR;
    LK_CHECK(pass && pass->tape, LK_EINVAL, "pass or tape is NULL");
    LK_CHECK(!pass->accumulator || pass->accumulator->model == model, LK_EINVAL,
             "the accumulator belongs to another model");
    lk_range layers;
    LK_TRY(layers_find(model, pass, &layers));
    LK_TRY(lk__model_check_pass(model, pass, layers));
    LK_TRY(input_check(model->net, pass, layers, x));
    struct lk__pass_run own = {.param = model->values};
    struct lk__pass_run *run = lk__pass_is_prepared(pass) ? pass->run : &own;
    run->model = model;
    run->samples = lk_shape_of(x).dim[0];
    if (pass->accumulator)
        run->param = pass->accumulator->values;
    lk_pass inner = *pass;
    inner.run = run;
    lk_range stage = pass->layers.n > 0 ? pass->layers : (lk_range){0, model->net->list[0].n};
    LK_TRY(params_enter(model, pass, stage, run->param));
    if (pass->recompute > 1 && pass->accumulator && !run->bad && !run->last)
        run->most = lk__segments_size(model->net, pass->recompute);
    LK_TRY(still_run(&inner, &layers, &x));
    if (run->most > 0)
        LK_TRY(lk__segments_run(&inner, &model->net->list[0], layers, x, out));
    else
        LK_TRY(lk__list_run(&inner, &model->net->list[0], layers, x, out));
    return LK_TRACE(lk__terms_end(model, pass));
}

/* The pass with a prepared run; one that is NULL is refused by lk_model_forward(). */
static lk_pass pass_with(const lk_pass *pass, struct lk__pass_run *run)
{
    lk_pass with = pass ? *pass : (lk_pass){.tape = NULL};
    with.run = run;
    return with;
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
    lk_pass with = pass_with(pass, &run);
    LK_TRY(lk_model_forward(model, &with, x, out));
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
    struct lk__pass_run run = {.param = model->values, .bad = layer, .bad_size = size};
    lk_pass with = pass_with(pass, &run);
    return LK_TRACE(lk_model_forward(model, &with, x, out));
}
