/* A model made of another, with batch norm over all ranks in place of that over shards: ChainerMN's
 * create_mnbn_model.
 *
 * The layers' options are copied and changed, a net is built of them as lk_model_build() does, and what the
 * other model holds is copied: the same boxes, parameters and state, and what is frozen.  Called by the
 * program, on the thread of both models.
 */
#include "base/fpenv.h"
#include "base/option/option.h"
#include "nn/model.h"

#include <string.h>

extern const lk_layer lk__layer_batch_norm;

/* ---- layers ---- */

static lk_status layers_change(lk_configs *layers, lk_arena *arena);

/* Give a batch norm the statistics of the whole batch; look for others in the lists of a layer. */
static lk_status layer_change(lk_config *layer, lk_arena *arena)
{
    const lk_option *table = layer->descriptor->options;
    if (layer->descriptor == &lk__layer_batch_norm.descriptor) {
        LK_TRY(lk_config_with_defaults(layer, arena, layer));
        LK_TRY(lk_option_set(lk_option_find(table, "statistics"), layer->options, "batch", arena));
    }
    for (const lk_option *o = table; o && o->name && layer->options; o++) {
        void *field = (char *)layer->options + o->offset;
        lk_config *config = field;
        if (o->registry != &lk_registry_layer)
            continue;
        if (o->type == LK_OPTION_CONFIGS)
            LK_TRY(layers_change(field, arena));
        else if (config->descriptor)
            LK_TRY(layer_change(config, arena));
    }
    return LK_OK;
}

static lk_status layers_change(lk_configs *layers, lk_arena *arena)
{
    for (int64_t i = 0; i < layers->n; i++)
        LK_TRY(layer_change(&layers->item[i], arena));
    return LK_OK;
}

/* A layer of a program may build layers that its options do not list: no caller can change these. */
static lk_status layers_check(const lk__net *net)
{
    for (int64_t i = 0; i < net->n_instances; i++)
        LK_CHECK(net->instance[i].layer != &lk__layer_batch_norm ||
                     net->instance[i].forward.calls > 0,
                 LK_ENOTSUP,
                 "layer %s is made by the layer around it, not listed by its options: it keeps the "
                 "statistics of shards",
                 net->instance[i].name);
    return LK_OK;
}

/* ---- what is held ---- */

static lk_status slab_copy(const lk_slab *from, int64_t n, lk_slab **to, lk_tensor ***tensors)
{
    LK_TRY(lk_slab_new_like(from, to));
    memcpy(lk_slab_data(*to), lk_slab_data(from),
           (size_t)lk_slab_layout_bytes(lk_slab_layout_of(from)));
    return LK_TRACE(lk__slab_tensors(*to, 0, n, tensors));
}

static lk_status net_copy(const lk__net *from, lk__net *to)
{
    LK_CHECK(to->n_instances == from->n_instances && to->n_params == from->n_params &&
                 to->n_state == from->n_state &&
                 lk_slab_layout_bytes(to->params_layout) ==
                     lk_slab_layout_bytes(from->params_layout),
             LK_ESTATE, "the same layers have other parameters when they are built again");
    for (int64_t i = 0; i < to->n_instances; i++)
        to->instance[i].frozen = from->instance[i].frozen;
    for (int64_t i = 0; i < to->n_params; i++) {
        to->start[i].frozen = from->start[i].frozen;
        to->start[i].owned.held = from->start[i].owned.held;
    }
    for (int64_t i = 0; i < to->n_state; i++)
        to->moving[i].owned.held = from->moving[i].owned.held;
    if (!from->params)
        return LK_OK;
    LK_TRY(slab_copy(from->params, to->n_params, &to->params, &to->param));
    return LK_TRACE(slab_copy(from->state, to->n_state, &to->state, &to->state_of));
}

static lk_status model_fill(const lk_model *from, lk_model *to)
{
    for (int64_t i = 0; i < from->n_layers; i++) {
        lk_config layer;
        LK_TRY(lk__config_copy(&from->layer[i], to->arena, &layer));
        LK_TRY(layer_change(&layer, to->arena));
        LK_TRY(lk_model_add_config(to, &layer));
    }
    if (!from->net)
        return LK_OK;
    LK_TRY(lk_model_build(to, &from->net->spec));
    LK_TRY(layers_check(to->net));
    return LK_TRACE(net_copy(from->net, to->net));
}

lk_status lk_model_new_multi_node_batch_norm(const lk_model *model, lk_model **out)
{
    LK_FP_GUARD();
    lk_status st;
    lk_model *copy = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_CHECK(model, LK_EINVAL, "model is NULL");
    LK_TRY(lk_model_new(&copy));
    LK_TRY_TO(fail, model_fill(model, copy));
    *out = copy;
    return LK_OK;
fail:
    lk_model_free(copy);
    return st;
}
