/* Teams: who computes which pieces, and where the sums are. */
#include "parallel/team.h"

#include "coll/agree.h"

#include <string.h>

/* The most blocks that a rank has in any batch of up to `pieces`. */
static int nodes_most(const lk_team_spec *spec, int rank, int size)
{
    int most = 1;
    for (int64_t pieces = 1; !spec->fast && !spec->one_block && pieces <= spec->pieces; pieces++) {
        int n = lk_range_subtrees(pieces, lk_range_split(pieces, rank, size), NULL);
        most = n > most ? n : most;
    }
    return most;
}

/* Slabs of this rank: one for each of its blocks, and one for the total if there are several. */
static int slabs(const lk_team *t)
{
    return t->max_nodes > 1 ? t->max_nodes + 1 : 1;
}

static lk_status sums_make(lk_team *t)
{
    int64_t bytes = lk_sums_bytes(t->spec.model);
    int n = slabs(t);
    if (!t->comm)
        LK_TRY(lk_alloc_zero(&t->own, n * bytes, 1));
    char *memory = t->comm ? lk_shared_data(t->shared, lk_comm_intra_rank(t->comm))
                           : (char *)t->own;
    LK_TRY(lk_alloc_zero(&t->sums, n, sizeof(lk_sums *)));
    for (int i = 0; i < n; i++)
        LK_TRY(lk_sums_wrap(t->spec.model, memory + i * bytes, &t->sums[i]));
    lk_slab_slice slice;
    int64_t params = lk_layout_slices(lk_slab_layout(lk_model_params(t->spec.model)));
    LK_TRY(lk_layout_get(lk_slab_layout(lk_sums_slab(t->sums[0])), 0, &slice));
    t->dtype = slice.dtype;
    t->elements = bytes / (int64_t)lk_dtype_size(t->dtype);
    t->params = lk_layout_bytes(lk_slab_layout(lk_model_params(t->spec.model))) /
                (int64_t)lk_dtype_size(t->dtype);
    int64_t states = lk_layout_slices(lk_slab_layout(lk_model_state(t->spec.model)));
    LK_TRY(lk_layout_get(lk_slab_layout(lk_sums_slab(t->sums[0])), params + states, &slice));
    t->joined = slice.offset / (int64_t)lk_dtype_size(t->dtype);
    LK_TRY(lk_alloc_zero(&t->seen, t->joined - t->params, lk_dtype_size(t->dtype)));
    if (t->comm && t->spec.bucket > 0)
        LK_TRY(lk__buckets_make(t));
    return LK_OK;
}

static lk_status team_make(lk_team *t)
{
    lk_comm *comm = t->spec.comm;
    t->size = comm ? lk_comm_size(comm) : 1;
    t->rank = comm ? lk_comm_rank(comm) : 0;
    const char *s = t->spec.pieces == 1 ? "" : "s";
    LK_CHECK(t->size <= t->spec.pieces, LK_EINVAL,
             "%d ranks for a batch of %lld shard%s: start at most %lld rank%s, or give data.shards "
             "a larger value (and a batch that has as many samples), which is another run with "
             "other bits",
             t->size, (long long)t->spec.pieces, s, (long long)t->spec.pieces, s);
    if (t->size > 1)
        LK_TRY(lk_comm_dup(comm, &t->comm));
    t->max_nodes = nodes_most(&t->spec, t->rank, t->size);
    if (t->comm)
        LK_TRY(lk_shared_new(t->comm, slabs(t) * lk_sums_bytes(t->spec.model), "sums", &t->shared));
    lk_status st = sums_make(t);
    if (st == LK_OK && t->comm && t->spec.one_block && !t->spec.fast)
        st = lk_alloc_zero(&t->first, t->size + 1, sizeof *t->first);
    LK_TRY(lk_agree(t->comm, st));
    return LK_OK;
}

lk_status lk_team_new(const lk_team_spec *spec, lk_team **out)
{
    lk_team *t = NULL;
    *out = NULL;
    LK_CHECK(spec && spec->model && spec->pieces >= 1, LK_EINVAL,
             "no model is given, or no pieces");
    LK_CHECK(lk_model_params(spec->model), LK_ESTATE,
             "the model holds no parameters yet: call lk_model_hold() first");
    if (!spec->fast)
        LK_TRY(lk__agree_bits(spec->comm));
    LK_TRY(lk__agree_alloc(spec->comm, &t, sizeof *t));
    t->spec = *spec;
    lk_status st = team_make(t);
    if (st != LK_OK) {
        lk_team_free(t);
        LK_TRY(st);
    }
    *out = t;
    return LK_OK;
}

void lk_team_free(lk_team *t)
{
    if (!t)
        return;
    lk__buckets_free(t);
    lk_free(t->first);
    for (int i = 0; t->sums && i < slabs(t); i++)
        lk_sums_free(t->sums[i]);
    lk_free(t->sums);
    lk_free(t->seen);
    lk_free(t->own);
    for (int64_t i = 0; i < t->n_placed; i++)
        lk_shared_free(t->placed[i]);
    lk_free(t->placed);
    lk_shared_free(t->shared);
    lk_comm_free(t->comm);
    lk_free(t);
}

lk_comm *lk_team_comm(const lk_team *t)
{
    return t->comm;
}

int lk_team_rank(const lk_team *t)
{
    return t->rank;
}

int lk_team_size(const lk_team *t)
{
    return t->size;
}

/* The sums of each block are set by its pass; a rank without one gives zeros. */
static void sums_begin(lk_team *t)
{
    for (int i = 0; i < t->n_nodes; i++)
        lk_sums_begin(t->sums[i]);
    if (t->n_nodes == 0)
        lk_sums_clear(t->sums[0]);
}

/* The range of this rank, one subtree if it is to have one block. */
static lk_range range_begin(lk_team *t, int64_t pieces)
{
    if (!t->first)
        return lk_range_split(pieces, t->rank, t->size);
    if (t->first[t->size] != pieces)
        lk_subtree_partition(pieces, t->size, t->first);
    return (lk_range){t->first[t->rank], t->first[t->rank + 1] - t->first[t->rank]};
}

lk_range lk_team_begin(lk_team *t, int64_t pieces, int64_t samples)
{
    t->pieces = pieces;
    t->range = range_begin(t, pieces);
    t->batch = (lk_dist_batch){.comm = t->comm,
                               .samples = samples,
                               .pieces = t->spec.fast ? 0 : pieces,
                               .first = t->first};
    if (t->spec.fast) {
        t->n_nodes = t->range.n > 0;
        t->node[0] = t->range;
    } else {
        t->n_nodes = lk_range_subtrees(pieces, t->range, t->node);
    }
    sums_begin(t);
    lk__buckets_begin(t);
    return t->range;
}

lk__deal lk__team_deal(const lk_team *t)
{
    if (t->spec.fast)
        return (lk__deal){.pieces = t->size};
    return (lk__deal){.pieces = t->pieces, .first = t->first};
}

const lk_dist_batch *lk_team_batch(const lk_team *t)
{
    return t->comm && t->spec.one_block ? &t->batch : NULL;
}

int lk_team_blocks(const lk_team *t, lk_range *out)
{
    memcpy(out, t->node, (size_t)t->n_nodes * sizeof *out);
    return t->n_nodes;
}

lk_sums *lk_team_sums(const lk_team *t, int k)
{
    return t->sums[k];
}

lk_sums *lk_team_total(const lk_team *t)
{
    return t->sums[t->n_nodes > 1 ? t->max_nodes : 0];
}
