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

/* Offsets in bytes become elements: all slices of an accumulator have the model's dtype. */
static lk_status accumulators_make(lk__groups *g)
{
    int64_t bytes = lk_accumulator_bytes(g->model);
    int n = slabs(g);
    if (!g->comm)
        LK_TRY(lk_alloc_zero(&g->own, n * bytes, 1));
    char *memory = g->comm ? lk_shm_data(g->shared, lk_comm_node_rank(g->comm)) : (char *)g->own;
    LK_TRY(lk_alloc_zero(&g->accumulator, n, sizeof(lk_accumulator *)));
    for (int i = 0; i < n; i++)
        LK_TRY(lk_accumulator_wrap(g->model, memory + i * bytes, &g->accumulator[i]));
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
    g->n_groups = 1;
    g->group[0] = (lk__grad_group){.elements = {0, g->joined}, .n_levels = g->comm ? 1 : 0};
    if (g->comm && g->plan->spec.bucket_bytes > 0)
        LK_TRY(lk__buckets_make(g));
    return LK_OK;
}

static lk_status groups_make(lk__groups *g)
{
    g->comm = g->mesh->replicas;
    g->size = g->comm ? lk_comm_size(g->comm) : 1;
    g->rank = g->comm ? lk_comm_rank(g->comm) : 0;
    if (g->comm)
        LK_TRY(lk_shm_open(g->comm, slabs(g) * lk_accumulator_bytes(g->model), "sums", &g->shared));
    lk_status st = accumulators_make(g);
    if (st == LK_OK && g->comm && g->plan->one_subtree && !g->plan->spec.fast)
        st = lk_alloc_zero(&g->first, g->size + 1, sizeof *g->first);
    LK_TRY(lk_agree(g->comm, st));
    return LK_OK;
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
    lk__buckets_free(g);
    lk_free(g->first);
    for (int i = 0; g->accumulator && i < slabs(g); i++)
        lk_accumulator_free(g->accumulator[i]);
    lk_free(g->accumulator);
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
static void accumulators_begin(lk__groups *g)
{
    for (int i = 0; i < g->n_microbatches; i++)
        lk_accumulator_begin(g->accumulator[i]);
    if (g->n_microbatches == 0)
        lk_accumulator_clear(g->accumulator[0]);
}

/* The shards of this rank.  Where each rank has one micro-batch (g->first), they are one subtree; ranges
 * are found again only where the number of shards is not that of the batch before. */
static lk_range range_begin(lk__groups *g, int64_t shards)
{
    if (!g->first)
        return lk_range_split(shards, g->rank, g->size);
    if (g->first[g->size] != shards)
        (void)lk__plan_deal(g->plan, shards, g->first); /* even or not, they are in g->first */
    return (lk_range){g->first[g->rank], g->first[g->rank + 1] - g->first[g->rank]};
}

lk_range lk__groups_begin(lk__groups *g, int64_t shards, int64_t samples)
{
    g->shards = shards;
    g->range = range_begin(g, shards);
    g->batch = (lk_dist_batch){.comm = g->comm,
                               .samples = samples,
                               .shards = g->plan->spec.fast ? 0 : shards,
                               .first = g->first};
    if (g->plan->spec.fast) {
        g->n_microbatches = g->range.n > 0;
        g->microbatch[0] = g->range;
    } else {
        g->n_microbatches = lk_range_subtrees(shards, g->range, g->microbatch);
    }
    g->group[0].level[0] = (lk__level){g->comm, g->batch.shards, g->first};
    accumulators_begin(g);
    lk__buckets_begin(g);
    return g->range;
}

lk__deal lk__groups_deal(const lk__groups *g)
{
    if (g->plan->spec.fast)
        return (lk__deal){.shards = g->size};
    return (lk__deal){.shards = g->shards, .first = g->first};
}

const lk_dist_batch *lk__groups_batch(const lk__groups *g)
{
    return g->comm && g->plan->one_subtree ? &g->batch : NULL;
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
