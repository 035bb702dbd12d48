/* Groups: who computes which pieces, and where the sums are. */
#include "coll/agree.h"
#include "parallel/group.h"

#include <string.h>

/* Slabs of this rank: one for each of its blocks, and one for the total if there are several. */
static int slabs(const lk__groups *g)
{
    return g->plan->most_blocks > 1 ? g->plan->most_blocks + 1 : 1;
}

static lk_status sums_make(lk__groups *g)
{
    int64_t bytes = lk_accumulator_bytes(g->model);
    int n = slabs(g);
    if (!g->comm)
        LK_TRY(lk_alloc_zero(&g->own, n * bytes, 1));
    char *memory = g->comm ? lk_shm_data(g->shared, lk_comm_node_rank(g->comm)) : (char *)g->own;
    LK_TRY(lk_alloc_zero(&g->sums, n, sizeof(lk_accumulator *)));
    for (int i = 0; i < n; i++)
        LK_TRY(lk_accumulator_wrap(g->model, memory + i * bytes, &g->sums[i]));
    lk_slab_slice slice;
    int64_t loss;
    LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(lk_accumulator_slab(g->sums[0])), 0, &slice));
    g->dtype = slice.dtype;
    g->elements = bytes / (int64_t)lk_dtype_size(g->dtype);
    g->params = lk_slab_layout_bytes(lk_slab_layout_of(lk_model_params(g->model))) /
                (int64_t)lk_dtype_size(g->dtype);
    LK_TRY(lk_slab_layout_find(lk_slab_layout_of(lk_accumulator_slab(g->sums[0])), "loss", &loss));
    LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(lk_accumulator_slab(g->sums[0])), loss, &slice));
    g->joined = slice.offset / (int64_t)lk_dtype_size(g->dtype);
    LK_TRY(lk_alloc_zero(&g->seen, g->joined - g->params, lk_dtype_size(g->dtype)));
    g->n_groups = 1;
    g->group[0] = (lk__grad_group){.elements = {0, g->joined}, .n_levels = g->comm ? 1 : 0};
    if (g->comm && g->plan->spec.bucket > 0)
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
    lk_status st = sums_make(g);
    if (st == LK_OK && g->comm && g->plan->one_block && !g->plan->spec.fast)
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
    if (!plan->spec.fast)
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
    for (int i = 0; g->sums && i < slabs(g); i++)
        lk_accumulator_free(g->sums[i]);
    lk_free(g->sums);
    lk_free(g->seen);
    lk_free(g->own);
    for (int64_t i = 0; i < g->n_placed; i++)
        lk_shm_close(g->placed[i]);
    lk_free(g->placed);
    lk_shm_close(g->shared);
    lk_free(g);
}

/* The sums of each block are set by its pass; a rank without one gives zeros. */
static void sums_begin(lk__groups *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        lk_accumulator_begin(g->sums[i]);
    if (g->n_nodes == 0)
        lk_accumulator_clear(g->sums[0]);
}

/* The range of this rank, one subtree if it is to have one block. */
static lk_range range_begin(lk__groups *g, int64_t pieces)
{
    if (!g->first)
        return lk_range_split(pieces, g->rank, g->size);
    if (g->first[g->size] != pieces)
        (void)lk__plan_deal(g->plan, pieces, g->first);
    return (lk_range){g->first[g->rank], g->first[g->rank + 1] - g->first[g->rank]};
}

lk_range lk__groups_begin(lk__groups *g, int64_t pieces, int64_t samples)
{
    g->pieces = pieces;
    g->range = range_begin(g, pieces);
    g->batch = (lk_dist_batch){.comm = g->comm,
                               .samples = samples,
                               .pieces = g->plan->spec.fast ? 0 : pieces,
                               .first = g->first};
    if (g->plan->spec.fast) {
        g->n_nodes = g->range.n > 0;
        g->node[0] = g->range;
    } else {
        g->n_nodes = lk_range_subtrees(pieces, g->range, g->node);
    }
    g->group[0].level[0] = (lk__level){g->comm, g->batch.pieces, g->first};
    sums_begin(g);
    lk__buckets_begin(g);
    return g->range;
}

lk__deal lk__groups_deal(const lk__groups *g)
{
    if (g->plan->spec.fast)
        return (lk__deal){.pieces = g->size};
    return (lk__deal){.pieces = g->pieces, .first = g->first};
}

const lk_dist_batch *lk__groups_batch(const lk__groups *g)
{
    return g->comm && g->plan->one_block ? &g->batch : NULL;
}

int lk__groups_blocks(const lk__groups *g, lk_range *out)
{
    memcpy(out, g->node, (size_t)g->n_nodes * sizeof *out);
    return g->n_nodes;
}

lk_accumulator *lk__groups_sums(const lk__groups *g, int k)
{
    return g->sums[k];
}

lk_accumulator *lk__groups_total(const lk__groups *g)
{
    return g->sums[g->n_nodes > 1 ? g->plan->most_blocks : 0];
}
