/* lk_model: the list of layers that was asked for, its getters, and where its parameters lie.
 *
 * Made by the program or a job, on each rank its own; one thread at a time.
 */
#include "nn/model.h"

#include "base/fpenv.h"

#include <string.h>

lk_status lk_model_new(lk_model **out)
{
    lk_status st;
    lk_model *model = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&model, 1, sizeof *model));
    LK_TRY_TO(fail, lk_arena_new(&model->arena));
    *out = model;
    return LK_OK;
fail:
    lk_model_free(model);
    return st;
}

void lk_model_free(lk_model *model)
{
    if (!model)
        return;
    lk__net_free(model->net);
    lk_free(model->values);
    lk_free(model->layer);
    lk_arena_free(model->arena);
    lk_free(model);
}

lk_status lk_model_add(lk_model *model, const char *type, const char *options)
{
    lk_config config;
    LK_CHECK(model, LK_EINVAL, "model is NULL");
    LK_TRY(lk_config_parse(&lk_registry_layer, type, options, model->arena, &config));
    return LK_TRACE(lk_model_add_config(model, &config));
}

lk_status lk_model_add_config(lk_model *model, const lk_config *layer)
{
    LK_CHECK(model && layer && layer->descriptor, LK_EINVAL, "model or layer is NULL");
    LK_CHECK(!model->net, LK_ESTATE, "the model is built: no layer can be added");
    LK_TRY(lk__grow(&model->layer, &model->max_layers, model->n_layers + 1, sizeof *model->layer));
    model->layer[model->n_layers++] = *layer;
    return LK_OK;
}

void lk__net_drop(lk__net *net)
{
    if (net->own_params) { /* the slab elsewhere is not the model's */
        lk__tensors_free(net->own_param, net->n_params);
        net->params = net->own_params;
    }
    lk__tensors_free(net->param, net->n_params);
    lk__tensors_free(net->state_of, net->n_state);
    lk_slab_free(net->params);
    lk_slab_free(net->state);
    lk_free(net->row_sums);
    net->row_sums = NULL;
    net->param = net->own_param = net->state_of = NULL;
    net->params = net->own_params = net->state = NULL;
}

void lk__net_free(lk__net *net)
{
    if (!net)
        return;
    lk__net_drop(net);
    lk_slab_layout_free(net->params_layout);
    lk_slab_layout_free(net->state_layout);
    lk_free(net->instance);
    lk_free(net->list);
    lk_free(net->start);
    lk_free(net->use);
    lk_free(net->moving);
    lk_free(net->carry);
    lk_free(net->term);
    lk_arena_free(net->arena);
    lk_free(net);
}

enum { LEAST_BLOCK = 32 };

static lk_status net_new(const lk_model *model, const lk_model_spec *spec, lk__net **out)
{
    lk_status st;
    lk__net *net = NULL;
    LK_TRY(lk_alloc_zero(&net, 1, sizeof *net));
    net->spec = *spec;
    lk_pieces *p = &net->spec.pieces;
    p->blocks = p->blocks > 0 ? p->blocks : 1;
    p->least_block = p->least_block > 0 ? p->least_block : LEAST_BLOCK;
    LK_TRY_TO(fail, lk_arena_new(&net->arena));
    LK_TRY_TO(fail, lk_slab_layout_new(&net->params_layout));
    LK_TRY_TO(fail, lk_slab_layout_new(&net->state_layout));
    LK_TRY_TO(fail, lk__net_build(model, net));
    *out = net;
    return LK_OK;
fail:
    lk__net_free(net);
    return st;
}

lk_status lk_model_build(lk_model *model, const lk_model_spec *spec)
{
    LK_FP_GUARD();
    lk__net *net = NULL;
    LK_CHECK(model && spec, LK_EINVAL, "model or spec is NULL");
    LK_CHECK(!model->net, LK_ESTATE, "the model is already built");
    LK_CHECK(model->n_layers > 0, LK_EINVAL, "a model without layers");
    LK_CHECK(spec->dtype == LK_F32 || spec->dtype == LK_F64, LK_EDTYPE,
             "parameters of %s: only f32 and f64", lk_dtype_name(spec->dtype));
    int64_t count;
    LK_TRY(lk_shape_count(spec->in.shape, &count));
    LK_TRY(net_new(model, spec, &net));
    lk_status st = lk_alloc_zero(&model->values, net->n_uses, sizeof *model->values);
    if (st != LK_OK) {
        lk__net_free(net);
        LK_TRY(st);
    }
    model->net = net;
    return LK_OK;
}

lk_status lk_model_hold(lk_model *model, const lk_holding *holding)
{
    LK_FP_GUARD();
    LK_CHECK(model, LK_EINVAL, "model is NULL");
    LK_CHECK(model->net, LK_ESTATE, "the model is not built: call lk_model_build() first");
    LK_CHECK(!model->net->params, LK_ESTATE, "the model already holds its parameters");
    lk_status st = lk__net_hold(model->net, holding);
    if (st != LK_OK) {
        lk__net_drop(model->net);
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__model_check_held(const lk_model *model)
{
    LK_CHECK(model && model->net, LK_ESTATE, "the model is not built");
    LK_CHECK(model->net->params, LK_ESTATE,
             "the model holds no parameters yet: call lk_model_hold(model, NULL) after "
             "lk_model_build()");
    return LK_OK;
}

lk_status lk__model_check_whole(const lk_model *model)
{
    lk_slab_slice part = {.name = NULL};
    LK_TRY(lk__model_check_held(model));
    const lk__net *net = model->net;
    bool whole = lk_slab_layout_is_whole(lk_slab_layout_of(net->params), &part) &&
                 lk_slab_layout_is_whole(lk_slab_layout_of(net->state), &part);
    if (whole)
        return LK_OK;
    int layer = (int)(strrchr(part.name, '.') - part.name);
    return LK_RAISE(LK_ESTATE,
                    "layer %.*s: of %s %s%s the model holds %s only; a pass needs all of it: "
                    "lk_model_hold(model, NULL)",
                    layer, part.name, part.name, lk_dtype_name(part.dtype),
                    lk_shape_text(part.shape).s, lk_slab_slice_text(&part).s);
}

lk_status lk__model_check_pass(const lk_model *model, const lk_pass *pass, lk_range layers)
{
    const lk_pass_parts *parts = pass->parts;
    if (!parts && pass->layers.n == 0)
        return lk__model_check_whole(model);
    LK_TRY(lk__model_check_held(model));
    const lk__net *net = model->net;
    for (int64_t i = 0; i < net->n_uses; i++) {
        const lk__param_use *use = &net->use[i];
        if (!lk__range_has(layers, use->layer))
            continue;
        if (parts && parts->layer[use->instance].by_tile && lk__net_positions(net, use->param) > 0)
            continue; /* its op looks at what there is */
        if (parts && parts->layer[use->instance].features.split &&
            lk__net_is_cut(net, &net->start[use->param].owned))
            continue;
        lk_slab_slice slice;
        int64_t elements;
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(net->params), use->param, &slice));
        LK_TRY(lk_shape_count(slice.shape, &elements));
        LK_CHECK(slice.count == elements, LK_ESTATE,
                 "layer %s: of %s the model holds %s only; the pass needs all of it",
                 net->instance[use->instance].name, slice.name, lk_slab_slice_text(&slice).s);
    }
    return LK_OK;
}

lk_status lk__model_check_recurrent(const lk_model *model)
{
    LK_CHECK(model->net->n_carries > 0, LK_EINVAL,
             "the model has no recurrent layer, such as lstm: nothing is carried from one time to "
             "the next");
    return LK_OK;
}

int64_t lk_model_index_limit(const lk_model *model)
{
    for (int64_t i = 0; i < model->n_layers; i++) {
        const lk_layer *layer = (const lk_layer *)(const void *)model->layer[i].descriptor;
        if (!(layer->flags & LK_LAYER_RESHAPES))
            return layer->indices && model->layer[i].options
                       ? layer->indices(model->layer[i].options)
                       : 0;
    }
    return 0;
}

/* ---- looking ---- */

lk_tensor_type lk_model_out(const lk_model *model)
{
    return model->net->out;
}

const lk_slab_layout *lk_model_layout(const lk_model *model)
{
    return model->net->params_layout;
}

lk_slab *lk_model_params(const lk_model *model)
{
    return model->net->params;
}

lk_status lk__model_bind_params(lk_model *model, lk_slab *slab)
{
    lk_tensor **param = NULL;
    LK_CHECK(slab, LK_EINVAL, "slab is NULL");
    LK_TRY(lk__model_check_held(model));
    lk__net *net = model->net;
    LK_CHECK(lk_slab_layout_of(slab) == lk_slab_layout_of(net->params), LK_EINVAL,
             "the slab is not of the layout of the model's parameters");
    LK_CHECK(!net->own_params, LK_ESTATE,
             "the parameters of the model are another trainer's: free that first");
    LK_TRY(lk__slab_tensors(slab, 0, net->n_params, &param));
    net->own_params = net->params;
    net->own_param = net->param;
    net->params = slab;
    net->param = param;
    return LK_OK;
}

void lk__model_unbind_params(lk_model *model)
{
    lk__net *net = model->net;
    if (!net || !net->own_params)
        return;
    memcpy(lk_slab_data(net->own_params), lk_slab_data(net->params),
           (size_t)lk_slab_layout_bytes(lk_slab_layout_of(net->own_params)));
    lk__tensors_free(net->param, net->n_params);
    net->params = net->own_params;
    net->param = net->own_param;
    net->own_params = NULL;
    net->own_param = NULL;
}

lk_status lk__model_begin_training(lk_model *model)
{
    LK_CHECK(!model->net->own_params, LK_ESTATE,
             "the parameters of the model are another trainer's: free that first");
    model->trainers++;
    return LK_OK;
}

void lk__model_end_training(lk_model *model)
{
    model->trainers--;
}

lk_slab *lk_model_state(const lk_model *model)
{
    return model->net->state;
}

bool lk_model_has_weight_reuse(const lk_model *model)
{
    return model->net->has_weight_reuse;
}

bool lk_model_has_shared_params(const lk_model *model)
{
    return model->net->n_extra > 0;
}

bool lk_model_needs_batch_sync(const lk_model *model)
{
    return model->net->needs_batch_sync;
}

int64_t lk_model_layers(const lk_model *model)
{
    return model->net ? model->net->n_instances : 0;
}

lk_status lk_model_layer(const lk_model *model, int64_t i, lk_layer_info *out)
{
    LK_CHECK(i >= 0 && i < lk_model_layers(model), LK_EINVAL, "layer %lld of %lld", (long long)i,
             (long long)lk_model_layers(model));
    const lk_layer_instance *instance = &model->net->instance[i];
    *out = (lk_layer_info){.name = instance->name,
                           .type = instance->layer->descriptor.name,
                           .depth = instance->depth,
                           .in = instance->in,
                           .out = instance->out,
                           .reach = instance->reach,
                           .forward = instance->forward,
                           .backward = instance->backward};
    for (int k = 0; k < instance->n_params; k++) {
        const lk__param_use *use = &model->net->use[instance->param + k];
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(model->net->params_layout, use->param, &slice));
        out->params += use->extra < 0 ? slice.count : 0;
    }
    return LK_OK;
}

int64_t lk_model_carries(const lk_model *model)
{
    return model->net ? model->net->n_carries : 0;
}

lk_status lk_model_carry(const lk_model *model, int64_t i, lk_carry_info *out)
{
    LK_CHECK(i >= 0 && i < lk_model_carries(model), LK_EINVAL, "carry %lld of %lld", (long long)i,
             (long long)lk_model_carries(model));
    const lk__net *net = model->net;
    *out = (lk_carry_info){net->carry[i].name, {net->spec.dtype, net->carry[i].shape}};
    return LK_OK;
}

static const lk_descriptor *layer_at(int i)
{
    return lk_layers[i] ? &lk_layers[i]->descriptor : NULL;
}

const lk_registry lk_registry_layer = {.name = "layer",
                                       .plural = "layers",
                                       .summary = "what a model is made of",
                                       .named = true,
                                       .at = layer_at};
