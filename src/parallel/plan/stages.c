/* What a plan says of stages: which layers this rank has, and the micro-batches that go through them.
 *
 * A replica's shards of a batch are one node of the tree, and its micro-batches 2^j of them each, but perhaps
 * the last: sums of micro-batches, joined by the tree over these, are then those of the shards.  lk_plan_new()
 * calls this, on each rank; it is arithmetic.
 */
#include "parallel/pipeline/stages.h"

#include "nn/model.h"
#include "parallel/groups_internal.h"
#include "parallel/plan/features.h"

#include <lockstep/extra/alloc.h>

enum { TO_FILL = 4 }; /* micro-batches a stage that are enough to fill a pipeline */

/* Shards of a micro-batch: as many as leave enough of these, of the replica that has the most. */
static int64_t microbatch_shards(const lk_plan *p, const lk_model *model)
{
    int64_t most = (p->spec.shards - 1) / p->ranks + 1, n = 1;
    if (lk_model_has_weight_reuse(model)) /* whose contributions are added up shard by shard */
        return 1;
    if (p->spec.microbatch > 0)
        return p->spec.microbatch;
    while (most / (2 * n) >= (int64_t)TO_FILL * p->stages)
        n *= 2;
    return n;
}

lk_status lk__stage_plan(lk_plan *p, const lk_model *model)
{
    int64_t *first = NULL;
    p->layers = (lk_range){0, model->net->list[0].n};
    p->microbatch_shards = microbatch_shards(p, model);
    if (p->stages == 1)
        return LK_OK;
    LK_TRY(lk_alloc_zero(&p->lag, p->stages, sizeof *p->lag));
    LK_TRY(lk_alloc_zero(&first, p->stages + 1, sizeof *first));
    lk_status st = lk__stages_cut(model, p->stages, first);
    if (st == LK_OK)
        p->layers = (lk_range){first[p->stage], first[p->stage + 1] - first[p->stage]};
    const lk__list *list = &model->net->list[0];
    for (int s = 0; st == LK_OK && s < p->stages; s++)
        for (int64_t i = list->instance[first[s]]; i < p->n_layers; i++)
            p->layer[i].stage = s;
    lk_free(first);
    LK_TRY(st);
    for (int64_t i = 0; i < p->n_layers; i++) {
        p->layer[i].idle = !p->runs[i];
        p->runs[i] = p->runs[i] && p->layer[i].stage == p->stage;
    }
    return LK_OK;
}

int64_t lk__plan_microbatches(const lk_plan *p, int64_t shards)
{
    return (shards + p->microbatch_shards - 1) / p->microbatch_shards;
}

lk_status lk__plan_most_microbatches(const lk_plan *plan, int64_t *out)
{
    int64_t *first = NULL;
    *out = plan->microbatches;
    LK_TRY(lk_alloc_zero(&first, plan->ranks + 1, sizeof *first));
    for (int64_t shards = 1; shards < plan->spec.shards; shards++) {
        (void)lk__plan_deal(plan, shards, first);
        int64_t n = lk__plan_microbatches(plan, first[plan->rank + 1] - first[plan->rank]);
        *out = n > *out ? n : *out;
    }
    lk_free(first);
    return LK_OK;
}

static int64_t type_bytes(lk_tensor_type type)
{
    int64_t n = 0;
    return lk_shape_count(type.shape, &n) == LK_OK ? n * (int64_t)lk_dtype_size(type.dtype) : 0;
}

/* The lag of a stage that takes about no memory, by what a whole sample has in its layers: between forward and
 * backward what came in and, unless it is computed again, what each layer gives; between the halves of backward
 * inputs and output gradients of layers with weights.  Equal on all ranks, whatever they have of a sample. */
static int64_t lag_of(const lk_plan *p, const lk_model *model, int stage)
{
    int64_t forward = 0, weights = 0;
    bool first = true;
    for (int64_t i = 0; i < p->n_layers; i++) {
        const lk_layer_instance *l = &model->net->instance[i];
        if (p->layer[i].stage != stage)
            continue;
        if (first)
            forward += type_bytes(l->in);
        if (!p->spec.recompute_stages)
            forward += type_bytes(l->out);
        if (l->n_params > 0)
            weights += type_bytes(l->in) + type_bytes(l->out);
        first = false;
    }
    return lk_pipeline_lag_by_bytes(stage, forward, weights);
}

void lk__pipeline_plan(lk_plan *p, const lk_model *model)
{
    int64_t samples = p->microbatch_shards * p->spec.shard_size;
    p->microbatches = lk__plan_microbatches(p, p->shards.n);
    /* Not p->samples: of a smaller batch a rank may have a whole shard where it has the last of this one. */
    p->pass_samples = samples < p->spec.batch ? samples : p->spec.batch;
    for (int s = 0; s < p->stages; s++)
        p->lag[s] = p->spec.lag < 0 ? lag_of(p, model, s) : p->spec.lag;
    p->pipeline = (lk_pipeline_spec){.kind = p->spec.schedule,
                                     .stages = p->stages,
                                     .microbatches = p->microbatches,
                                     .lag = p->lag};
}

bool lk__stage_uses(const lk_plan *p, const lk_model *model, int64_t param)
{
    const lk__net *net = model->net;
    for (int64_t u = net->start[param].first_use; u >= 0; u = net->use[u].next)
        if (lk__range_has(p->layers, net->use[u].layer))
            return true;
    return false;
}

int64_t lk__boundary_bytes(const lk_plan *p, const lk_model *model, int64_t layer)
{
    int64_t number = model->net->list[0].instance[layer];
    return lk_box_count(&p->layer[number].box) *
           (int64_t)lk_dtype_size(model->net->instance[number].out.dtype);
}

int64_t lk__stage_slabs(const lk_plan *p, const lk_model *model)
{
    /* As train/shards.h has them: of a model that may not add to what is there one more. */
    int64_t n = lk_model_has_weight_reuse(model) ? p->microbatches : p->microbatches + 1, slabs = 0;
    for (; n > 1; n /= 2)
        slabs++;
    return lk_model_has_weight_reuse(model) ? slabs + 1 : slabs > 0 ? slabs : 1;
}

const lk_held *lk__boundary_held(const lk_plan *p, const lk_model *model, int64_t layer)
{
    int64_t number = model->net->list[0].instance[layer];
    const lk_tile *tile = p->part ? p->part[number].tile : NULL;
    bool cut = p->layer[number].domain == LK_BY_TILE && tile &&
               p->layer[number].box.ndim - 1 == tile->y.box.ndim;
    return cut ? &tile->y : NULL;
}

void lk__stage_input_plan(lk_plan *p, const lk_model *model)
{
    if (p->stage == 0)
        return;
    int64_t before = model->net->list[0].instance[p->layers.first - 1];
    const lk_held *held = lk__boundary_held(p, model, p->layers.first - 1);
    const lk_box *box = &p->layer[before].box;
    p->in_cut = lk__plan_varies(p, before);
    if (p->in_cut)
        p->in_features = (lk_range){box->first[box->ndim - 1], box->n[box->ndim - 1]};
    p->in = held ? LK_BY_TILE : LK_BY_SAMPLE;
    if (held)
        p->x = *held;
}
