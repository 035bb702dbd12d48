/* lk__groups: made for a plan; which shards this rank has, and where the accumulators of its micro-
 * batches lie.  The trainer calls it, on its thread; join.c and buckets.c have what is joined.
 */
#include "coll/agree.h"
#include "parallel/groups_internal.h"

#include <lockstep/extra/plan.h>

#include <string.h>

/* Slabs of this rank: one for each of its micro-batches, and one for the total if there are several. */
static int slabs(const lk__groups *g)
{
    return g->plan->most_microbatches > 1 ? g->plan->most_microbatches + 1 : 1;
}

static int sets(const lk__groups *g)
{
    return g->plan->spec.double_buffering ? 2 : 1;
}

/* Room for the sums of leaves. */
static lk_status leaves_make(lk__groups *g)
{
    const lk_tiling *t = g->plan->tiling;
    for (int64_t i = 0; t && i < lk__model_uses(g->model); i++) {
        lk_tensor *leaves = lk__accumulator_leaves(g->accumulator[0], i);
        g->n_leaf += leaves ? 1 : 0;
    }
    g->leaf_sum = lk__leaf_sums_elements(g->plan, g->model);
    if (g->n_leaf == 0)
        return LK_OK;
    LK_TRY(lk_alloc_zero(&g->leaf, g->n_leaf, sizeof *g->leaf));
    return LK_TRACE(lk_alloc_zero(&g->leaf_room, lk__tiles_join_room(t, g->leaf_sum) + g->leaf_sum,
                                  lk_dtype_size(g->dtype)));
}

/* Offsets in bytes become elements: all slices of an accumulator have the model's dtype. */
static lk_status accumulators_make(lk__groups *g)
{
    lk__leaves leaves = lk__plan_leaves(g->plan);
    int64_t bytes = lk__accumulator_bytes(g->model, &leaves);
    int n = sets(g) * slabs(g);
    if (!g->comm)
        LK_TRY(lk_alloc_zero(&g->own, n * bytes, 1));
    char *memory = g->comm ? lk_shm_data(g->shared, lk_comm_node_rank(g->comm)) : (char *)g->own;
    LK_TRY(lk_alloc_zero(&g->all, n, sizeof(lk_accumulator *)));
    for (int i = 0; i < n; i++)
        LK_TRY(lk__accumulator_new(g->model, &leaves, memory + i * bytes, &g->all[i]));
    g->accumulator = g->all;
    lk_slab_slice slice;
    int64_t loss;
    LK_TRY(
        lk_slab_layout_slice(lk_slab_layout_of(lk_accumulator_slab(g->accumulator[0])), 0, &slice));
    g->dtype = slice.dtype;
    g->elements = bytes / (int64_t)lk_dtype_size(g->dtype);
    g->params = lk_slab_layout_bytes(lk_slab_layout_of(lk_model_params(g->model))) /
                (int64_t)lk_dtype_size(g->dtype);
    LK_TRY(lk_slab_layout_find(lk_slab_layout_of(lk_accumulator_slab(g->accumulator[0])), "loss",
                               &loss));
    LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(lk_accumulator_slab(g->accumulator[0])), loss,
                                &slice));
    g->joined = slice.offset / (int64_t)lk_dtype_size(g->dtype);
    LK_TRY(lk_alloc_zero(&g->stats, g->joined - g->params, lk_dtype_size(g->dtype)));
    LK_TRY(lk__ranges_make(g->plan, g->model, &g->group, &g->n_groups));
    LK_TRY(leaves_make(g));
    if (g->comm && g->plan->spec.wire != LK_WIRE_DTYPE)
        LK_TRY(lk__wire_new(lk_slab_layout_of(lk_accumulator_slab(g->accumulator[0])),
                            g->model->net->n_params + g->model->net->n_extra, g->plan->spec.wire,
                            g->comm, &g->wire));
    if (g->comm && g->plan->spec.bucket_bytes > 0)
        LK_TRY(lk__buckets_make(g));
    if (g->plan->spec.double_buffering)
        LK_TRY(lk__pending_sums_make(g));
    return LK_OK;
}

static lk_status groups_make(lk__groups *g)
{
    g->comm = g->mesh->replicas;
    int space = g->mesh->n[LK_AXIS_SPACE];
    g->size = g->mesh->n[LK_AXIS_DATA] * space; /* also alone, in a rehearsal */
    g->rank = g->mesh->at[LK_AXIS_DATA] * space + g->mesh->at[LK_AXIS_SPACE];
    g->replica = g->mesh->at[LK_AXIS_DATA];
    g->replicas = g->mesh->n[LK_AXIS_DATA];
    lk__leaves leaves = lk__plan_leaves(g->plan);
    lk_status st = LK_OK;
    if (g->comm)
        st = lk_shm_open(g->comm,
                         (int64_t)sets(g) * slabs(g) * lk__accumulator_bytes(g->model, &leaves),
                         "sums", &g->shared);
    if (g->comm == g->mesh->world)
        LK_TRY(st); /* on all ranks alike; of several stages on those of this one */
    if (st == LK_OK)
        st = accumulators_make(g);
    if (st == LK_OK && g->size > 1 && g->plan->one_subtree &&
        (!g->plan->spec.fast || g->replicas < g->size))
        st = lk_alloc_zero(&g->first, g->size + g->replicas + 2, sizeof *g->first);
    if (g->first)
        g->replica_first = g->first + g->size + 1;
    return LK_TRACE(lk_agree(g->mesh->world, st));
}

lk_status lk__groups_new(const lk_plan *plan, const lk_mesh *mesh, lk_model *model,
                         lk__groups **out)
{
    lk__groups *g = NULL;
    *out = NULL;
    LK_CHECK(lk_model_params(model), LK_ESTATE,
             "the model holds no parameters yet: call lk_model_hold() first");
    if (!plan->spec
             .fast) /* the same bits are promised: no algorithm may be named that gives others */
        LK_TRY(lk__agree_bits(mesh->world));
    LK_TRY(lk__agree_alloc(mesh->world, &g, sizeof *g));
    g->plan = plan;
    g->mesh = mesh;
    g->model = model;
    lk_status st = groups_make(g);
    if (st != LK_OK) {
        lk__groups_free(g);
        LK_TRY(st);
    }
    *out = g;
    return LK_OK;
}

void lk__groups_free(lk__groups *g)
{
    if (!g)
        return;
    lk__pending_sums_free(g);
    lk_free(g->bucket);
    lk__wire_free(g->wire);
    lk_free(g->first);
    lk_free(g->group);
    lk_free(g->leaf);
    lk_free(g->leaf_room);
    for (int i = 0; g->all && i < sets(g) * slabs(g); i++)
        lk_accumulator_free(g->all[i]);
    lk_free(g->all);
    lk_free(g->stats);
    lk_free(g->own);
    for (int64_t i = 0; i < g->n_placed; i++)
        lk_shm_close(g->placed[i]);
    lk_free(g->placed);
    lk_shm_close(g->shared);
    lk_free(g);
}

/* Backward sets the gradients of each micro-batch, so they need not be zero before; a rank without a
 * micro-batch gives zeros. */
/* The shards of this rank's replica.  Where each has one micro-batch (g->first), they are one subtree; ranges
 * are found again only where the number of shards is not that of the batch before. */
static lk_range range_begin(lk__groups *g, int64_t shards)
{
    const int64_t *of = g->replica_first;
    if (!g->first)
        return lk_range_split(shards, g->replica, g->replicas);
    if (g->first[g->size] != shards) {
        (void)lk__plan_deal(g->plan, shards, g->replica_first); /* even or not, they are there */
        lk__plan_deal_samples(g->plan, shards, g->replica_first, g->first);
    }
    return (lk_range){of[g->replica], of[g->replica + 1] - of[g->replica]};
}

/* How each range of the slab is joined in this batch. */
static void levels_begin(lk__groups *g)
{
    bool fast = g->plan->spec.fast, some = g->n_microbatches == 1;
    int64_t pieces = fast ? 0 : g->shards;
    lk_comm *data = g->mesh->along[LK_AXIS_DATA];
    for (int i = 0; i < g->n_groups; i++) {
        lk__grad_group *group = &g->group[i];
        bool by_samples = group->share == LK__BY_SAMPLES;
        bool own = by_samples && g->first ? g->first[g->rank + 1] > g->first[g->rank] : some;
        group->joins = group->share != LK__SUMMED && (by_samples ? g->comm : data);
        group->level = (lk__level){.comm = by_samples ? g->comm : data,
                                   .pieces = pieces,
                                   .in_place = fast || own,
                                   .first = fast         ? NULL
                                            : by_samples ? g->first
                                                         : g->replica_first};
    }
}

void lk__groups_weights_changed(const lk__groups *g)
{
    for (int64_t i = 0; i < g->plan->n_tiles; i++)
        lk_tile_weights_changed(g->plan->tile[i]);
}

lk_range lk__groups_deal_batch(lk__groups *g, int64_t shards, int64_t samples)
{
    g->shards = shards;
    g->range = range_begin(g, shards);
    g->batch = (lk_dist_batch){.comm = g->comm,
                               .samples = samples,
                               .shards = g->plan->spec.fast ? 0 : shards,
                               .first = g->plan->spec.fast ? NULL : g->first};
    g->tile_batch = g->batch;
    g->tile_batch.comm = g->mesh->along[LK_AXIS_DATA];
    g->tile_batch.first = g->plan->spec.fast ? NULL : g->replica_first;
    if (g->plan->spec.fast) {
        g->n_microbatches = g->range.n > 0;
        g->microbatch[0] = g->range;
    } else {
        g->n_microbatches = lk_range_subtrees(shards, g->range, g->microbatch);
    }
    return g->range;
}

lk_range lk__groups_begin(lk__groups *g, int64_t shards, int64_t samples)
{
    (void)lk__groups_deal_batch(g, shards, samples);
    lk__groups_weights_changed(g);
    levels_begin(g);
    g->accumulator = g->all + (g->pending.result ? (1 - g->pending.set) * slabs(g) : 0);
    for (int i = 0; i < g->n_microbatches; i++)
        lk_accumulator_begin(g->accumulator[i]);
    if (g->n_microbatches == 0)
        lk_accumulator_clear(g->accumulator[0]);
    g->n_started = 0; /* of the buckets, of which none is complete */
    for (int b = 0; b < g->n_buckets; b++)
        g->bucket[b].waits = g->bucket[b].slices;
    return g->range;
}

lk__deal lk__groups_deal(const lk__groups *g, bool tiled)
{
    const lk_tiling *tiling = tiled ? g->plan->tiling : NULL;
    bool silent = g->mesh->at[LK_AXIS_FEATURES] > 0; /* all along features have the same losses */
    if (tiling) {
        int64_t shards = g->plan->spec.fast ? g->replicas : g->shards;
        const int64_t *first = g->plan->spec.fast ? NULL : g->replica_first;
        return (lk__deal){shards, first, g->replicas, g->replica, tiling, silent};
    }
    if (g->plan->spec.fast)
        return (lk__deal){.shards = g->size, .parts = g->size, .part = g->rank, .silent = silent};
    return (lk__deal){.shards = g->shards,
                      .first = g->first,
                      .parts = g->size,
                      .part = g->rank,
                      .silent = silent};
}

const lk_dist_batch *lk__groups_batch(const lk__groups *g)
{
    return g->comm && g->plan->one_subtree ? &g->batch : NULL;
}

lk_pass_parts lk__groups_parts(const lk__groups *g, lk_range pass, int64_t shard_size,
                               int64_t *samples)
{
    const lk_plan *p = g->plan;
    int space = g->size / g->replicas;
    bool shared = p->tiling && p->tiling->size > 1;
    lk_pass_parts parts = {.layer = p->part,
                           .in = p->in == LK_BY_TILE ? &p->x : NULL,
                           .in_features = p->in_cut ? &p->in_features : NULL,
                           .samples = shared ? samples : NULL,
                           .rank = shared ? p->tiling->rank : 0,
                           .batch = g->tile_batch.comm ? &g->tile_batch : NULL};
    for (int s = 0; parts.samples && s <= space; s++) { /* where those of each begin in the pass */
        int64_t at = g->first[g->replica * space + s] * shard_size - pass.first;
        samples[s] = at < 0 ? 0 : at > pass.n ? pass.n : at;
    }
    return parts;
}

lk__leaves lk__groups_leaves(const lk__groups *g)
{
    return lk__plan_leaves(g->plan);
}

int lk__groups_microbatches(const lk__groups *g, lk_range *out)
{
    memcpy(out, g->microbatch, (size_t)g->n_microbatches * sizeof *out);
    return g->n_microbatches;
}

lk_accumulator *lk__groups_accumulator(const lk__groups *g, int k)
{
    return g->accumulator[k];
}

lk_accumulator *lk__groups_result(const lk__groups *g)
{
    return g->accumulator[g->n_microbatches > 1 ? g->plan->most_microbatches : 0];
}
