/* lk_plan: which layer a rank runs on what, and what travels when, worked out before the first step.
 * The trainer makes one on each rank and runs from it; `lockstep plan` prints it.
 *
 * Data, space and stages can be cut so far.  The ranks along space are one replica of their stage: it
 * has a range of the shards of each batch.  Where space is cut, layers run by tiles of these samples, or
 * by samples, which the ranks of the replica then share (domains.c).  In a step a rank
 *
 *     forward, backward    gets values of the stage before and behind, fetches margins, changes domains,
 *                          and joins the sums of layers
 *     before the update    joins votes and loss, then gradients and statistics
 *     after it             waits for the others, if they share a copy of the parameters
 */
#include "base/fpenv.h"
#include "coll/shm/area.h"
#include "nn/model.h"
#include "parallel/groups_internal.h"
#include "parallel/pipeline/stages.h"
#include "parallel/plan/domains.h"
#include "parallel/plan/features.h"
#include "parallel/plan/transfers.h"

#include <lockstep/extra/plan.h>

#include <string.h>

/* ---- what cannot be done ---- */

/* Each replica has a shard; where the ranks are the shards, a multiple of them has. */
static lk_status shards_check(const lk_mesh *m, const lk_plan_spec *spec)
{
    int64_t data = m->n[LK_AXIS_DATA], ranks = data * m->n[LK_AXIS_SPACE];
    int64_t batch = spec->batch > data ? spec->batch : data;
    if (spec->fast)
        batch = (batch + ranks - 1) / ranks * ranks;
    LK_CHECK(data <= spec->shards, LK_EINVAL,
             "%lld %s for a batch of %lld shard%s: start at most %lld, or give data.batch=%lld "
             "data.shards=%lld, which is another run with other bits",
             (long long)data, m->n[LK_AXIS_SPACE] > 1 ? "replicas" : "ranks",
             (long long)spec->shards, spec->shards == 1 ? "" : "s", (long long)spec->shards,
             (long long)batch, (long long)lk_shards_for(batch, data));
    return LK_OK;
}

static lk_status mesh_check(const lk_mesh *m, const lk_model *model, const lk_plan_spec *spec)
{
    LK_TRY(shards_check(m, spec));
    LK_CHECK(
        m->n[LK_AXIS_STAGES] == 1 || !lk_model_needs_batch_sync(model), LK_ENOTSUP,
        "parallel.stages: batch_norm with statistics: batch needs all micro-batches of a batch "
        "at once, and stages have one after the other; use statistics: shard");
    LK_CHECK(
        !lk_model_needs_batch_sync(model) || !lk_model_has_weight_reuse(model) || spec->shards == 1,
        LK_ENOTSUP,
        "batch_norm takes its statistics over the whole batch, which is cut into parts because "
        "a layer uses its parameters more than once; use statistics: shard");
    return LK_OK;
}

/* ---- who has what ---- */

bool lk__plan_deal(const lk_plan *p, int64_t shards, int64_t *first)
{
    bool even = !p->one_subtree || p->spec.fast || p->ranks == 1;
    if (!even)
        lk_subtree_partition(shards, p->ranks, first);
    for (int r = 0; even && r <= p->ranks; r++)
        first[r] = r < p->ranks ? lk_range_split(shards, r, p->ranks).first : shards;
    return even;
}

void lk__plan_deal_samples(const lk_plan *p, int64_t shards, const int64_t *replica, int64_t *first)
{
    int64_t space = p->tiling ? p->tiling->size : 1;
    for (int64_t d = 0; d < p->ranks; d++) {
        int64_t *own = &first[d * space];
        lk_subtree_partition(replica[d + 1] - replica[d], (int)space, own);
        for (int64_t s = 0; s < space; s++)
            own[s] += replica[d];
    }
    first[(int64_t)p->ranks * space] = shards;
}

/* The most micro-batches that a rank has in any batch. */
static int most_microbatches_of(const lk_plan *p)
{
    int most = 1;
    for (int64_t n = 1; !p->spec.fast && !p->one_subtree && n <= p->spec.shards; n++) {
        int here = lk_range_subtrees(n, lk_range_split(n, p->rank, p->ranks), NULL);
        most = here > most ? here : most;
    }
    return most;
}

/* Samples of some shards. */
static lk_range samples_of(const lk_plan_spec *s, lk_range shards)
{
    int64_t first = shards.first * s->shard_size, end = first + shards.n * s->shard_size;
    first = first < s->batch ? first : s->batch;
    end = end < s->batch ? end : s->batch;
    return (lk_range){first, end - first};
}

/* Whether each rank joins only what it updates, from where all have it: on one node. */
static bool is_direct(const lk_plan *p, const lk_model *model, const int64_t *first)
{
    lk__program program;
    int64_t pieces = p->spec.fast ? p->ranks : p->spec.shards;
    return p->spec.shared && !p->tiling && p->spec.bucket_bytes == 0 &&
           p->spec.wire == LK_WIRE_DTYPE && !p->spec.double_buffering &&
           !lk_model_has_shared_params(model) && p->spec.ranks_of_node == p->ranks &&
           lk__program_runs(pieces, p->spec.fast ? NULL : first, p->ranks, &program);
}

/* What this rank has of its replica where layers run by samples, and of the update. */
static lk_status shares_plan(lk_plan *p, const lk_model *model, const int64_t *first)
{
    int64_t *all = NULL;
    int space = p->tiling ? p->tiling->size : 1;
    p->direct = is_direct(p, model, first);
    p->owned = p->samples;
    if (space == 1)
        return LK_OK;
    LK_TRY(lk_alloc_zero(&all, p->ranks * space + 1, sizeof *all));
    lk__plan_deal_samples(p, p->spec.shards, first, all);
    int at = p->rank * space + p->tiling->rank;
    p->owned = samples_of(&p->spec, (lk_range){all[at], all[at + 1] - all[at]});
    lk_free(all);
    return LK_OK;
}

/* What this rank has of a whole batch. */
static lk_status shards_plan(lk_plan *p, const lk_model *model)
{
    lk_status st = LK_OK;
    lk_range own[LK_MAX_SUBTREES];
    int64_t *first = NULL;
    LK_TRY(lk_alloc_zero(&first, p->ranks + 1, sizeof *first));
    (void)lk__plan_deal(p, p->spec.shards, first);
    p->most_microbatches = most_microbatches_of(p);
    p->shards = (lk_range){first[p->rank], first[p->rank + 1] - first[p->rank]};
    p->samples = samples_of(&p->spec, p->shards);
    p->microbatches = p->spec.fast ? 1 : lk_range_subtrees(p->spec.shards, p->shards, own);
    if (p->spec.fast)
        own[0] = p->shards;
    for (int k = 0; k < p->microbatches; k++) {
        int64_t n = samples_of(&p->spec, own[k]).n;
        p->pass_samples = n > p->pass_samples ? n : p->pass_samples;
    }
    if (p->stages > 1)
        lk__pipeline_plan(p, model);
    LK_TRY_TO(done, shares_plan(p, model, first));
done:
    lk_free(first);
    return LK_TRACE(st);
}

/* ---- layers ---- */

static lk_status layers_begin(lk_plan *p, const lk_model *model, int64_t elem)
{
    p->n_layers = lk_model_layers(model);
    LK_TRY(lk_alloc_zero(&p->layer, p->n_layers, sizeof *p->layer));
    for (int64_t i = 0; i < p->n_layers; i++) {
        lk_layer_info info;
        LK_TRY(lk_model_layer(model, i, &info));
        p->layer[i] = (lk_layer_plan){.name = info.name,
                                      .type = info.type,
                                      .depth = info.depth,
                                      .reach = info.reach,
                                      .domain = LK_BY_SAMPLE,
                                      .param_bytes = info.params * elem};
    }
    int64_t terms = lk_model_terms(model);
    LK_TRY(lk_alloc_zero(&p->runs, p->n_layers, sizeof *p->runs));
    LK_TRY(lk_alloc_zero(&p->counts, terms, sizeof *p->counts));
    for (int64_t i = 0; i < terms; i++)
        p->counts[i] = !p->spec.terms || p->spec.terms[i];
    p->spec.terms = NULL;
    lk__model_runs(model, p->counts, !p->spec.no_loss, p->runs);
    return LK_OK;
}

/* How far a layer reads beyond its tile of x. */
static void margin_fill(const lk_tile *tile, int64_t margin[LK_TILE_AXES][2])
{
    const lk_box *reads = &tile->x_reads, *own = &tile->x.tile;
    bool some = lk_box_count(reads) > 0 && lk_box_count(own) > 0;
    for (int d = 0; some && d < own->ndim; d++) {
        int64_t before = own->first[d] - reads->first[d],
                behind = reads->first[d] + reads->n[d] - own->first[d] - own->n[d];
        margin[d][0] = before > 0 ? before : 0;
        margin[d][1] = behind > 0 ? behind : 0;
    }
}

/* What the mesh's rank has of the parameters, and bytes of each layer's; the model may hold more. */
static lk_status params_plan(lk_plan *p, const lk_mesh *mesh, const lk_model *model, int64_t elem)
{
    const lk__net *net = model->net;
    lk_range tiles[3];
    LK_TRY(lk_alloc_zero(&p->param_elements, net->n_params, sizeof *p->param_elements));
    lk_mesh_tiles(mesh, p->spec.pieces.tile, tiles);
    for (int64_t i = 0; i < net->n_params; i++) {
        int64_t own = lk__stage_uses(p, model, i)
                          ? lk__model_part_count(model, i, p->spec.pieces.tile, tiles,
                                                 p->split ? &p->split->held : NULL)
                          : 0;
        int64_t whole = 1;
        for (int d = 0; d < net->start[i].owned.axes.ndim; d++)
            whole *= net->start[i].owned.axes.dim[d];
        p->param_elements[i] = own;
        p->layer[net->use[net->start[i].first_use].instance].param_bytes += (own - whole) * elem;
        if (lk__net_positions_in(net, i, p->spec.pieces.tile) == 0)
            continue;
        if (mesh->n[LK_AXIS_SPACE] > 1) /* ranks hold different boxes */
            p->spec.shared = false;
    }
    return LK_OK;
}

/* Bytes of these parameters. */
static int64_t params_bytes(const lk_plan *p, const lk__net *net)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < net->n_params; i++)
        bytes += lk__slice_bytes(net, p->param_elements[i]);
    return bytes;
}

int64_t lk__plan_state_elements(const lk_plan *p, const lk_model *model, int64_t i)
{
    const lk__net *net = model->net;
    const lk__owned *owned = &net->moving[i].owned;
    lk_slab_slice slice;
    if (!lk__range_has(p->layers, owned->layer) ||
        lk_slab_layout_slice(net->state_layout, i, &slice) != LK_OK)
        return 0;
    if (!p->split || !lk__net_is_cut(net, owned))
        return slice.count;
    int64_t n = owned->axes.dim[owned->axis];
    return slice.count / n * lk_feature_range(p->split, p->split->rank, n).n;
}

/* Bytes of the state of the layers that this rank has. */
static int64_t state_bytes(const lk_plan *p, const lk_model *model)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < model->net->n_state; i++)
        bytes += lk__slice_bytes(model->net, lk__plan_state_elements(p, model, i));
    return bytes;
}

/* Bytes of an accumulator of this rank: gradients of all uses and of their leaves, statistics, and losses. */
static int64_t sums_bytes(const lk_plan *p, const lk_model *model)
{
    const lk__net *net = model->net;
    lk__leaves leaves = lk__plan_leaves(p);
    int64_t bytes = state_bytes(p, model) + lk__accumulator_loss_bytes(model, &leaves);
    for (int64_t i = 0; i < net->n_uses; i++) {
        int64_t own = p->param_elements[net->use[i].param];
        bytes += lk__slice_bytes(net, own) +
                 lk__slice_bytes(net, lk__use_leaves(model, &leaves, i) * own);
    }
    return bytes;
}

/* What each layer gives, once its domain is known. */
static lk_status layers_fill(lk_plan *p, const lk_model *model)
{
    for (int64_t i = 0; i < p->n_layers; i++) {
        lk_layer_info info;
        LK_TRY(lk_model_layer(model, i, &info));
        lk_layer_plan *l = &p->layer[i];
        const lk_tile *tile = l->domain == LK_BY_TILE ? p->part[i].tile : NULL;
        bool cut = tile && info.out.shape.ndim - 1 == tile->y.box.ndim;
        l->samples = l->domain == LK_BY_TILE ? p->samples : p->owned;
        l->box = lk_box_whole(info.out.shape.ndim, info.out.shape.dim);
        l->tile = l->box;
        for (int d = 0; cut && d < tile->y.box.ndim; d++) {
            l->box.first[d] = tile->y.box.first[d];
            l->box.n[d] = tile->y.box.n[d];
            l->tile.first[d] = tile->y.tile.first[d];
            l->tile.n[d] = tile->y.tile.n[d];
        }
        int last = info.out.shape.ndim - 1;
        if (last >= 0 && lk__plan_varies(p, i)) {
            lk_range own = lk__plan_out_features(p, i, info.out.shape.dim[last]);
            l->box.first[last] = l->tile.first[last] = own.first;
            l->box.n[last] = l->tile.n[last] = own.n;
        }
        if (tile)
            margin_fill(tile, l->margin);
        int64_t samples = l->samples.n < p->pass_samples ? l->samples.n : p->pass_samples;
        if (p->runs[i])
            l->value_bytes = lk_box_count(&l->box) * samples *
                             (int64_t)lk_dtype_size(info.out.dtype);
        p->memory.values += l->value_bytes;
    }
    return LK_OK;
}

lk__leaves lk__plan_leaves(const lk_plan *p)
{
    return (lk__leaves){p->part, p->tiling ? lk_tiling_leaves(p->tiling) : 0, p->loss_tiled};
}

/* ---- all of it ---- */

/* Communicators that sums are joined by, each with an area that its ranks on a node share. */
static int64_t exchange_bytes(const lk_plan *p)
{
    const lk_tiling *t = p->tiling;
    int space = t ? t->size : 1, features = p->split ? p->split->size : 1;
    int n = p->ranks * space * p->stages * features > 1, own = p->ranks * space * features;
    n += p->stages > 1 && own > 1 ? 2 : 0;       /* that of a stage, and that along them */
    n += features > 1 && own > features ? 2 : 0; /* the replicas, and those along features */
    n += space > 1 && p->ranks > 1;              /* that along data */
    for (int d = 0; t && d < t->grid.ndim; d++)
        n += t->grid.dim[d] > 1;
    return n * (int64_t)sizeof(lk__rank_area);
}

static lk_status plan_make(lk_plan *p, const lk_mesh *mesh, const lk_model *model)
{
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(model));
    int64_t elem = 4;
    lk_slab_slice slice;
    if (lk_slab_layout_slices(layout) > 0) {
        LK_TRY(lk_slab_layout_slice(layout, 0, &slice));
        elem = (int64_t)lk_dtype_size(slice.dtype);
    }
    LK_TRY(layers_begin(p, model, elem));
    LK_TRY(lk__stage_plan(p, model));
    LK_TRY(lk__domains_plan(p, mesh, model));
    LK_TRY(lk__features_plan(p, mesh, model));
    if (p->tiling || p->split ||
        p->stages > 1) /* gradients are joined behind backward, those of tiles level by level */
        p->spec.bucket_bytes = 0;
    LK_TRY(shards_plan(p, model));
    LK_TRY(layers_fill(p, model));
    lk__stage_input_plan(p, model);
    LK_TRY(params_plan(p, mesh, model, elem));
    int64_t parameters = params_bytes(p, model->net), sums = sums_bytes(p, model);
    LK_TRY(lk__transfers_plan(p, model));
    int copies = p->spec.shared ? p->spec.ranks_of_node : 1;
    p->memory.parameters = parameters / copies;
    if (p->spec.shared)
        p->memory.parameters += parameters; /* the model's own memory waits for them */
    p->memory.optimizer = p->spec.optimizer_slabs * parameters / copies;
    p->memory.gradients = (p->most_microbatches > 1 ? p->most_microbatches + 1 : 1) * sums;
    if (p->stages > 1)
        p->memory.gradients = lk__stage_slabs(p, model) * sums;
    if (p->spec.double_buffering) { /* of two batches, and a copy for states */
        int64_t loss = lk__accumulator_loss_bytes(model, NULL);
        p->memory.gradients = 2 * p->memory.gradients + lk__accumulator_bytes(model, NULL) - loss;
    }
    if (p->tiling) { /* sums of leaves, and the room to join them */
        int64_t leaf_sums = lk__leaf_sums_elements(p, model);
        p->memory.gradients += (lk__tiles_join_room(p->tiling, leaf_sums) + leaf_sums) * elem;
    }
    int64_t narrow;
    LK_TRY(lk__wire_elements_plan(p, model, &narrow));
    p->memory.exchange = exchange_bytes(p) + narrow * (int64_t)sizeof(uint16_t);
    p->memory.samples = p->samples.n * p->spec.sample_bytes;
    p->memory.state = state_bytes(p, model);
    return LK_OK;
}

lk_status lk_plan_new(const lk_mesh *mesh, const lk_model *model, const lk_plan_spec *spec,
                      lk_plan **out)
{
    LK_FP_GUARD();
    lk_plan *p = NULL;
    LK_CHECK(mesh && model && spec && out, LK_EINVAL, "mesh, model, spec or out is NULL");
    *out = NULL;
    LK_CHECK(spec->shards >= 1 && spec->shard_size >= 1 && spec->batch >= 1, LK_EINVAL,
             "a batch of %lld samples in %lld shards of %lld", (long long)spec->batch,
             (long long)spec->shards, (long long)spec->shard_size);
    LK_TRY(mesh_check(mesh, model, spec));
    LK_TRY(lk_alloc_zero(&p, 1, sizeof *p));
    p->spec = *spec;
    int64_t filled = (spec->batch - 1) / spec->shard_size + 1;
    p->spec.shards = filled < spec->shards ? filled : spec->shards; /* of a set below a batch */
    p->spec.ranks_of_node = spec->ranks_of_node > 1 ? spec->ranks_of_node : 1;
    p->rank = mesh->at[LK_AXIS_DATA];
    p->ranks = mesh->n[LK_AXIS_DATA];
    p->stage = mesh->at[LK_AXIS_STAGES];
    p->stages = mesh->n[LK_AXIS_STAGES];
    if (p->stages > 1 || mesh->n[LK_AXIS_FEATURES] > 1) /* each rank updates what it has */
        p->spec.shared = false;
    p->one_subtree = (lk_model_needs_batch_sync(model) && !lk_model_has_weight_reuse(model)) ||
                     mesh->n[LK_AXIS_SPACE] > 1 || mesh->n[LK_AXIS_FEATURES] > 1 || p->stages > 1;
    lk_status st = plan_make(p, mesh, model);
    if (st != LK_OK) {
        lk_plan_free(p);
        LK_TRY(st);
    }
    *out = p;
    return LK_OK;
}

int64_t lk_plan_memory_sum(const lk_plan_memory *m)
{
    return m->parameters + m->optimizer + m->gradients + m->state + m->filters + m->samples +
           m->exchange + m->values + m->saving;
}

void lk_plan_free(lk_plan *p)
{
    if (!p)
        return;
    lk__domains_free(p);
    lk_feature_split_free(p->split);
    lk_free(p->node);
    lk_free(p->param_elements);
    lk_free(p->layer);
    lk_free(p->runs);
    lk_free(p->counts);
    lk_free(p->transfer);
    lk_free(p->lag);
    lk_free(p);
}

int64_t lk_plan_calls(const lk_plan *p)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < p->n_transfers; i++)
        sum += p->transfer[i].calls;
    return sum;
}

int64_t lk_plan_bytes(const lk_plan *p)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < p->n_transfers; i++)
        sum += p->transfer[i].bytes;
    return sum;
}
