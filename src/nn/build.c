/* Building a net: each layer says what it needs, and gets a name, numbers and shapes.  lk_model_build()
 * calls it once for a model, and layers call lk_build_*() from their `build`; no memory is taken for
 * parameters.
 *
 * A layer without a name is called by its type and how many of that type its list has had: "conv1",
 * "conv2".  Layers within a layer have its name before theirs: "residual1.conv1".
 *
 * What a layer declares is a use of a parameter: its own, or, where the file says `tie`, that of a
 * layer before it, which owns its name and its initial values.
 */
#include "base/failure.h"
#include "nn/model.h"

#include <lockstep/extra/suggest.h>

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 256, MAX_DEPTH = 32 };

static lk_status name_text(lk__net *net, const char *first, const char *dot, const char *second,
                           const char **out)
{
    char name[MAX_NAME];
    int n = snprintf(name, sizeof name, "%s%s%s", first, dot, second);
    LK_CHECK(n < MAX_NAME, LK_EINVAL, "the name \"%.40s...%s\" is longer than %d bytes", first,
             second, MAX_NAME - 1);
    return LK_TRACE(lk_arena_text(net->arena, name, (size_t)n, out));
}

/* The name of item `at` of a list. */
static lk_status layer_name(lk__net *net, const lk_configs *layers, int64_t at, const char *prefix,
                            const char **out)
{
    const lk_config *item = &layers->item[at];
    char own[64];
    if (item->name) {
        return LK_TRACE(name_text(net, prefix, *prefix ? "." : "", item->name, out));
    }
    int64_t count = 1;
    for (int64_t i = 0; i < at; i++)
        count += layers->item[i].descriptor == item->descriptor;
    snprintf(own, sizeof own, "%.40s%lld", item->descriptor->name, (long long)count);
    return LK_TRACE(name_text(net, prefix, *prefix ? "." : "", own, out));
}

/* Names tell layers apart, in messages and in files of weights. */
static lk_status layer_check_name(const lk__net *net, int64_t number)
{
    const char *name = net->instance[number].name;
    for (int64_t i = 0; i < number; i++)
        LK_CHECK(strcmp(net->instance[i].name, name) != 0, LK_EINVAL,
                 "layers %s and %s are both called \"%s\"; rename one",
                 net->instance[i].layer->descriptor.name,
                 net->instance[number].layer->descriptor.name, name);
    return LK_OK;
}

/* ---- what a layer calls ---- */

lk_dtype lk_build_dtype(const lk_build *build)
{
    return build->net->spec.dtype;
}

lk_tensor_type lk_build_list_in(const lk_build *build)
{
    return build->list_in;
}

lk_status lk_build_data(lk_build *build, size_t bytes, void *out)
{
    void *data = NULL;
    LK_TRY(lk_arena_alloc(build->net->arena, &data, 1, bytes));
    build->net->instance[build->instance].data = data;
    memcpy(out, &data, sizeof data);
    return LK_OK;
}

void lk_build_features(lk_build *build, lk_layer_features features)
{
    build->net->instance[build->instance].features = features;
}

lk_pieces lk_build_pieces(const lk_build *build)
{
    return build->net->spec.pieces;
}

/* Put the axis of a cut on its own: where it is a part of axis k, that becomes [before][n][behind]. */
static lk_status cut_axes(const char *name, lk_shape shape, lk_cut cut, lk__owned *out)
{
    int64_t inner = 1, elements;
    int k = shape.ndim - 1;
    LK_CHECK(shape.ndim >= 1, LK_ESHAPE, "%s has no axes", name);
    LK_TRY(lk_shape_count(shape, &elements));
    out->axes = shape;
    out->axis = -1;
    if (cut.n <= 1 || elements == 0)
        return LK_OK;
    for (; k > 0 && inner * shape.dim[k] <= cut.inner; k--)
        inner *= shape.dim[k];
    int64_t behind = cut.inner / inner, before = shape.dim[k] / cut.n / (behind ? behind : 1);
    LK_CHECK(behind * inner == cut.inner && before * cut.n * behind == shape.dim[k], LK_ESHAPE,
             "%s %s is not [...][%lld][%lld]", name, lk_shape_text(shape).s, (long long)cut.n,
             (long long)cut.inner);
    int extra = (before > 1) + (behind > 1);
    LK_CHECK(shape.ndim + extra <= LK_MAX_NDIM, LK_ESHAPE, "%s %s has too many axes to be cut",
             name, lk_shape_text(shape).s);
    lk_shape *axes = &out->axes;
    axes->ndim = k;
    if (before > 1)
        axes->dim[axes->ndim++] = before;
    out->axis = axes->ndim;
    axes->dim[axes->ndim++] = cut.n;
    if (behind > 1)
        axes->dim[axes->ndim++] = behind;
    while (++k < shape.ndim)
        axes->dim[axes->ndim++] = shape.dim[k];
    return LK_OK;
}

/* ---- parameters, and ties ---- */

/* Whether the layer shares this one with another. */
static bool is_tied(const lk_build *build, const lk_param *param)
{
    const char *tie = build->config->tie, *dot = tie ? strrchr(tie, '.') : NULL;
    return dot && strcmp(dot + 1, param->name) == 0;
}

/* A failure of the layer's tie, at the place where it was written. */
static lk_status tie_refuse(lk_build *build, lk_status st, const char *what)
{
    const lk_config *config = build->config;
    build->net->named = true;
    return LK_RAISE(st, "%s%slayer %s %s", config->tie_place ? config->tie_place : "",
                    config->tie_place ? ": " : "", build->net->instance[build->instance].name,
                    what);
}

/* No layer before has the parameter. */
static lk_status tie_unknown(lk_build *build, const lk_param *param)
{
    const lk__net *net = build->net;
    lk_suggestion s = {.wanted = build->config->tie};
    char what[512];
    for (int64_t i = 0; i < net->n_uses; i++)
        lk_suggest_consider(&s, net->use[i].name);
    bool near = lk_suggest_found(&s);
    snprintf(what, sizeof what, "ties its %s to \"%s\", which no layer before it has%s%s%s",
             param->name, build->config->tie, near ? "; did you mean \"" : "", near ? s.best : "",
             near ? "\"?" : "");
    return tie_refuse(build, LK_EINVAL, what);
}

/* The layer has declared all, and nothing that its tie names. */
static lk_status tie_unused(lk_build *build)
{
    const char *tie = build->config->tie, *dot = strrchr(tie, '.');
    char what[512];
    snprintf(what, sizeof what, "has no parameter \"%s\" to tie%s%s%s", dot ? dot + 1 : tie,
             dot ? "" : ": give LAYER.PARAMETER, such as ", dot ? "" : tie, dot ? "" : ".weight");
    return tie_refuse(build, LK_EINVAL, what);
}

/* Both have the same shape; the dtype is that of all parameters. */
static lk_status tie_check(lk_build *build, const lk_param *param, const lk__param_use *use)
{
    const lk__net *net = build->net;
    lk_slab_slice slice;
    char what[768];
    LK_TRY(lk_slab_layout_slice(net->params_layout, use->param, &slice));
    if (lk_shape_is_equal(slice.shape, param->shape))
        return LK_OK;
    bool turned = slice.shape.ndim == 2 && param->shape.ndim == 2 &&
                  slice.shape.dim[0] == param->shape.dim[1] &&
                  slice.shape.dim[1] == param->shape.dim[0] &&
                  lk_option_find(build->config->descriptor->options, "transpose");
    snprintf(what, sizeof what, "ties its %s %s%s to %s of layer %s, which is %s%s%s", param->name,
             lk_dtype_name(slice.dtype), lk_shape_text(param->shape).s, build->config->tie,
             net->instance[use->instance].name, lk_dtype_name(slice.dtype),
             lk_shape_text(slice.shape).s, turned ? "; its option transpose turns it" : "");
    return tie_refuse(build, LK_ESHAPE, what);
}

/* One more use of parameter number `param`, the last one. */
static lk_status use_add(lk_build *build, const char *name, const lk_param *as, int64_t param,
                         bool extra)
{
    lk__net *net = build->net;
    int64_t number = net->n_uses;
    LK_TRY(lk__grow(&net->use, &net->max_uses, number + 1, sizeof *net->use));
    lk__param_start *start = &net->start[param];
    net->use[number] = (lk__param_use){.name = name,
                                       .param = param,
                                       .extra = extra ? net->n_extra++ : -1,
                                       .instance = build->instance,
                                       .layer = net->layer,
                                       .next = -1,
                                       .by_tile = as->by_tile,
                                       .per_position = as->per_position,
                                       .cut = as->cut};
    if (extra)
        net->use[start->last_use].next = number;
    else
        start->first_use = number;
    start->last_use = number;
    start->n_uses++;
    net->n_uses++;
    net->instance[build->instance].n_params++;
    return LK_OK;
}

/* The layer shares a parameter.  Its last use says how it is cut. */
static lk_status param_tie(lk_build *build, const lk_param *param, const char *name)
{
    lk__net *net = build->net;
    int64_t at = 0;
    while (at < net->n_uses && strcmp(net->use[at].name, build->config->tie) != 0)
        at++;
    if (at == net->n_uses)
        return tie_unknown(build, param);
    LK_TRY(tie_check(build, param, &net->use[at]));
    lk__owned *owned = &net->start[net->use[at].param].owned;
    LK_TRY(cut_axes(name, param->shape, param->cut, owned));
    build->tied = true;
    LK_TRY(lk__unit_declare(param, name, &net->start[net->use[at].param]));
    return LK_TRACE(use_add(build, name, param, net->use[at].param, true));
}

lk_status lk_build_param(lk_build *build, const lk_param *param)
{
    lk__net *net = build->net;
    const char *name;
    LK_TRY(name_text(net, net->instance[build->instance].name, ".", param->name, &name));
    if (is_tied(build, param))
        return param_tie(build, param, name);
    LK_TRY(lk__grow(&net->start, &net->max_params, net->n_params + 1, sizeof *net->start));
    lk__param_start *start = &net->start[net->n_params];
    *start = (lk__param_start){
        .fan_in = param->fan_in, .fan_out = param->fan_out, .owned = {.layer = net->layer}};
    LK_TRY(lk_config_with_defaults(param->init, net->arena, &start->init));
    LK_TRY(lk__unit_declare(param, name, start));
    LK_TRY(cut_axes(name, param->shape, param->cut, &start->owned));
    LK_TRY(lk_slab_layout_add(net->params_layout, name, net->spec.dtype, param->shape));
    LK_TRY(use_add(build, name, param, net->n_params, false));
    net->n_params++;
    return LK_OK;
}

lk_status lk_build_state(lk_build *build, const char *name, lk_shape shape, lk_cut cut,
                         double start, double rate)
{
    lk__net *net = build->net;
    lk_layer_instance *instance = &net->instance[build->instance];
    const char *whole;
    LK_TRY(name_text(net, instance->name, ".", name, &whole));
    LK_TRY(lk__grow(&net->moving, &net->max_state, net->n_state + 1, sizeof *net->moving));
    lk__moving *moving = &net->moving[net->n_state];
    *moving = (lk__moving){
        .start = start, .rate = rate, .instance = build->instance, .owned = {.layer = net->layer}};
    LK_TRY(cut_axes(whole, shape, cut, &moving->owned));
    LK_TRY(lk_slab_layout_add(net->state_layout, whole, net->spec.dtype, shape));
    net->n_state++;
    instance->n_state++;
    return LK_OK;
}

lk_status lk_build_carry(lk_build *build, const char *name, lk_shape shape)
{
    lk__net *net = build->net;
    const char *whole;
    LK_TRY(name_text(net, net->instance[build->instance].name, ".", name, &whole));
    LK_TRY(lk__grow(&net->carry, &net->max_carries, net->n_carries + 1, sizeof *net->carry));
    net->carry[net->n_carries++] = (lk__carry){whole, shape};
    net->instance[build->instance].n_carries++;
    return LK_OK;
}

void lk_build_batch_sync(lk_build *build, lk_joins forward, lk_joins backward)
{
    lk__net *net = build->net;
    lk_layer_instance *instance = &net->instance[build->instance];
    net->needs_batch_sync = true;
    instance->forward = forward;
    instance->backward = backward;
    for (int i = 0; i < instance->n_state; i++)
        net->moving[net->n_state - 1 - i].once = true;
}

void lk_build_window(lk_build *build, lk_tile_kind kind, const lk_window *window)
{
    lk_layer_instance *instance = &build->net->instance[build->instance];
    instance->reach = LK_REACH_WINDOW;
    instance->kind = kind;
    instance->window = *window;
}

void lk_build_summed(lk_build *build, lk_summed summed)
{
    build->net->instance[build->instance].summed = summed;
}

void lk_build_reach(lk_build *build, lk_reach reach)
{
    build->net->instance[build->instance].reach = reach;
}

/* ---- lists of layers ---- */

static lk_status layer_build(lk__net *net, int64_t number, const lk_config *config,
                             lk_tensor_type list_in, lk_tensor_type in, lk_tensor_type *out)
{
    lk_build build = {.net = net, .instance = number, .config = config, .list_in = list_in};
    const lk_layer *layer = (const lk_layer *)(const void *)config->descriptor;
    lk_config filled;
    LK_TRY(lk_config_with_defaults(config, net->arena, &filled));
    net->instance[number].options = filled.options;
    net->instance[number].in = in;
    net->has_weight_reuse = net->has_weight_reuse || (layer->flags & LK_LAYER_WEIGHT_REUSE);
    lk_status st = layer->build(&build, filled.options, in, out);
    if (st == LK_OK && config->tie && !build.tied)
        return tie_unused(&build);
    if (st != LK_OK && !net->named) {
        lk__error_prefix("layer %s of %s%s: ", net->instance[number].name, lk_dtype_name(in.dtype),
                         lk_shape_text(in.shape).s);
        net->named = true;
    }
    LK_TRY(st);
    net->instance[number].out = *out;
    return LK_OK;
}

/* Build a list of layers as list number `list`. */
static lk_status list_build(lk__net *net, int64_t list, const lk_configs *layers,
                            const char *prefix, int depth, lk_tensor_type in, lk_tensor_type *out)
{
    int64_t *numbers = NULL;
    lk__fusion *fusion = NULL;
    LK_CHECK(depth < MAX_DEPTH, LK_EINVAL, "layers within layers, %d deep", depth);
    LK_TRY(lk_arena_alloc(net->arena, &numbers, layers->n, sizeof *numbers));
    LK_TRY(lk_arena_alloc(net->arena, &fusion, layers->n, sizeof *fusion));
    net->list[list] = (lk__list){layers->n, numbers, fusion};
    *out = in;
    for (int64_t i = 0; i < layers->n; i++) {
        LK_TRY(lk__grow(&net->instance, &net->max_instances, net->n_instances + 1,
                        sizeof *net->instance));
        int64_t number = numbers[i] = net->n_instances++;
        if (depth == 0)
            net->layer = i;
        lk_layer_instance *instance = &net->instance[number];
        *instance = (lk_layer_instance){
            .layer = (const lk_layer *)(const void *)layers->item[i].descriptor,
            .param = net->n_uses,
            .state = net->n_state,
            .carry = net->n_carries,
            .depth = depth};
        instance->reach = instance->layer->reach;
        LK_TRY(layer_name(net, layers, i, prefix, &instance->name));
        LK_TRY(layer_check_name(net, number));
        LK_CHECK(
            depth == 0 || !layers->item[i].stage, LK_EINVAL,
            "layer %s: stage: a stage begins with a layer of the model's own list, and this one "
            "is within another",
            net->instance[number].name);
        LK_TRY(layer_build(net, number, &layers->item[i], in, *out, out));
    }
    lk__list_fuse(net, &net->list[list]);
    return LK_OK;
}

lk_status lk_build_layers(lk_build *build, const char *name, const lk_configs *layers,
                          lk_tensor_type in, lk_tensor_type *out)
{
    lk__net *net = build->net;
    const char *prefix = net->instance[build->instance].name;
    int depth = net->instance[build->instance].depth + 1;
    if (*name)
        LK_TRY(name_text(net, prefix, ".", name, &prefix));
    LK_TRY(lk__grow(&net->list, &net->max_lists, net->n_lists + 1, sizeof *net->list));
    lk_layer_instance *instance = &net->instance[build->instance];
    LK_CHECK(instance->n_lists < LK_MAX_LISTS, LK_EINVAL, "%s: more than %d lists of layers",
             instance->name, LK_MAX_LISTS);
    int64_t list = instance->list[instance->n_lists++] = net->n_lists++;
    return LK_TRACE(list_build(net, list, layers, prefix, depth, in, out));
}

lk_status lk__net_build(const lk_model *model, lk__net *net)
{
    lk_configs layers = {.n = model->n_layers, .item = model->layer};
    LK_TRY(lk__grow(&net->list, &net->max_lists, 1, sizeof *net->list));
    net->n_lists = 1;
    LK_TRY(list_build(net, 0, &layers, "", 0, net->spec.in, &net->out));
    lk__net_settle_positions(net);
    lk__net_settle_features(net);
    return LK_OK;
}
