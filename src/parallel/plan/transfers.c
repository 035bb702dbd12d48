/* What a rank sends in a step, layer by layer, as plan->transfer.
 *
 * The walk goes over the layers as a pass does, then back.  All of it is arithmetic on boxes and on the
 * samples of the ranks, linear in samples and shards, so a model that passes shard by shard differs in
 * the number of calls alone.  Backward leaves out what is not asked for: the gradient of a convolution's
 * input that is given.  A node that communicates is always recorded, and always run by backward
 * (LK_OP_COLLECTIVE), so what it gives has a gradient.
 *
 *     fetch              of a margin: what this rank has of the margins of others; of filters that
 *                        positions have for themselves once a step
 *     change of domain   its tile of the samples of others, or the tiles of others of its samples
 *     stages             of each micro-batch what comes out, and back its gradient
 *     sum over tiles     one collective along each axis that has several ranks (sum_tiles.c)
 *     features           of each value that changes, and of sums over blocks (feature_transfers.c)
 *     recompute          what forward has sent, of layers that backward runs again (again.c)
 *
 * lk_plan_new() calls this, on each rank.
 */
#include "parallel/plan/transfers.h"

#include "dist/common/tiles.h"
#include "nn/model.h"
#include "parallel/groups_internal.h"
#include "parallel/pipeline/stages.h"
#include "parallel/plan/features.h"

#include <string.h>

typedef struct walk {
    lk_plan *plan;
    const lk_model *model;
    const lk__net *net;
    int64_t max_transfers;
    bool *needs;    /* by layer: whether its input has a gradient */
    int64_t passes; /* of a step; of a model that uses a parameter more than once, one a shard */
    int64_t samples, own;   /* of all of them, and those of them that are whole on this rank */
    int space, all;         /* ranks of a replica, and of all replicas */
    lk__sent_forward *sent; /* by layer: which of the transfers are its in forward */
} walk;

static lk_status add(walk *w, lk_transfer t)
{
    lk_plan *p = w->plan;
    if (t.calls == 0)
        return LK_OK;
    LK_TRY(lk__grow(&p->transfer, &w->max_transfers, p->n_transfers + 1, sizeof *p->transfer));
    p->transfer[p->n_transfers++] = t;
    return LK_OK;
}

/* ---- what one layer sends ---- */

/* Bytes of a position of a value; `varies`: of which this rank has its features. */
static int64_t position_bytes(const walk *w, lk_tensor_type type, bool varies)
{
    int ndim = type.shape.ndim;
    int64_t n = ndim > 0 ? type.shape.dim[ndim - 1] : 1;
    const lk_feature_split *split = w->plan->split;
    if (varies && split)
        n = lk_feature_range(split, split->rank, n).n;
    return n * (int64_t)lk_dtype_size(type.dtype);
}

/* Whether what layer number `number` gets, behind its change, and what it gives, are varying. */
static bool x_varies(const walk *w, int64_t number)
{
    const lk_plan *p = w->plan;
    return p->split && p->part && p->part[number].features.x;
}

static bool y_varies(const walk *w, int64_t number)
{
    const lk_plan *p = w->plan;
    return p->split && p->part && p->part[number].features.y;
}

/* The same before its change along features, where tiles become samples. */
static bool in_varies(const walk *w, int64_t number)
{
    const lk_plan *p = w->plan;
    lk_feature_change before = p->split && p->part ? p->part[number].features.before
                                                   : LK_FEATURES_STAY;
    return before == LK_FEATURES_STAY
               ? x_varies(w, number)
               : before == LK_FEATURES_GATHER || before == LK_FEATURES_GATHER_SUM;
}

/* What `name` sends along features, of samples that are whole or a tile each. */
static lk_status features_add(walk *w, lk_step_phase when, const char *name, bool by_tile,
                              lk__feature_calls c)
{
    const lk_plan *p = w->plan;
    int64_t samples = by_tile ? w->samples : w->own;
    int ranks = p->split ? p->split->size : 1;
    LK_TRY(add(w, (lk_transfer){when, LK_GATHERED, name, ranks, c.gathers * w->passes,
                                c.gather_bytes * samples}));
    return LK_TRACE(add(w, (lk_transfer){when, LK_JOINED, name, ranks, c.joins * w->passes,
                                         c.join_bytes * samples}));
}

static lk_status layer_features_add(walk *w, lk_step_phase when, int64_t number)
{
    const lk_plan *p = w->plan;
    lk__feature_calls c = lk__feature_calls_of(p, w->model, number, when == LK_IN_FORWARD,
                                               w->needs[number]);
    return LK_TRACE(features_add(w, when, w->net->instance[number].name,
                                 p->part && p->part[number].by_tile, c));
}

/* And of loss and metrics. */
static lk_status out_features_add(walk *w)
{
    bool by_tile = w->plan->out == LK_BY_TILE;
    LK_TRY(features_add(w, LK_IN_FORWARD, "loss", by_tile,
                        lk__feature_out_calls(w->plan, w->model, false)));
    return LK_TRACE(features_add(w, LK_IN_FORWARD, "metrics", by_tile,
                                 lk__feature_out_calls(w->plan, w->model, true)));
}

static lk_status fetch_add(walk *w, lk_step_phase when, int64_t number, const lk_fetch *fetch)
{
    const lk_layer_instance *l = &w->net->instance[number];
    lk_layer_plan *plan = &w->plan->layer[number];
    lk_fetch_size size = lk_fetch_size_of(fetch);
    bool forward = when == LK_IN_FORWARD;
    int64_t bytes = w->samples * (forward ? position_bytes(w, l->in, x_varies(w, number))
                                          : position_bytes(w, l->out, y_varies(w, number)));
    if (!fetch || w->samples == 0)
        return LK_OK;
    *(forward ? &plan->get_x : &plan->get_dy) = fetch;
    *(forward ? &plan->get_x_bytes : &plan->get_dy_bytes) = size.gets * bytes;
    return LK_TRACE(
        add(w, (lk_transfer){when, LK_FETCHED, l->name, size.from, w->passes, size.gives * bytes}));
}

/* Filters of positions of others, once a step, into an array that has the own ones, too
 * (dist/tiles/local_conv.c): a local convolution reads them in backward, its transpose in forward. */
static lk_status filters_add(walk *w, lk_step_phase when, int64_t number, const lk_tile *tile)
{
    const lk_layer_instance *l = &w->net->instance[number];
    lk_layer_plan *plan = &w->plan->layer[number];
    bool turned = tile->kind == LK_TILE_LOCAL_CONV_TRANSPOSE;
    if (!tile->weights || !tile->weights->get || w->samples == 0 ||
        when != (turned ? LK_IN_FORWARD : LK_IN_BACKWARD))
        return LK_OK;
    const lk_box *own = turned ? &tile->x.tile : &tile->y.tile;
    const lk_box *reads = turned ? &tile->x_reads : &tile->dy_reads;
    lk_fetch_size size = lk_fetch_size_of(tile->weights->get);
    lk_box hull = lk__box_hull(own, reads);
    int64_t filter = l->in.shape.dim[l->window.ndim] * position_bytes(w, l->out, false);
    for (int d = 0; d < l->window.ndim; d++)
        filter *= l->window.kernel[d];
    plan->get_w = tile->weights->get;
    plan->get_w_bytes = size.gets * filter;
    if (!lk__box_has(own, reads))
        plan->filter_bytes = lk_box_count(&hull) * filter;
    w->plan->memory.filters += plan->filter_bytes;
    return LK_TRACE(add(w, (lk_transfer){when, LK_FETCHED, w->net->use[l->param].name, size.from, 1,
                                         size.gives * filter}));
}

/* To samples a rank gives its tile of those of others, to tiles the rest of its own. */
static lk_status change_add(walk *w, lk_step_phase when, const char *name, lk_change change,
                            const lk_tile *at, lk_tensor_type type, bool varies)
{
    int64_t tile = lk_box_count(&at->x.tile), whole = 1;
    for (int d = 0; d < at->x.tile.ndim; d++)
        whole *= at->in[d];
    int64_t positions = change == LK_TO_SAMPLES ? tile * (w->samples - w->own)
                                                : (whole - tile) * w->own;
    return LK_TRACE(add(w, (lk_transfer){when, LK_CHANGED, name, w->space, w->passes,
                                         positions * position_bytes(w, type, varies)}));
}

/* One sum over tiles of `bytes` from each of them, in `calls` calls. */
static lk_status tiles_add(walk *w, lk_step_phase when, const char *name, int64_t calls,
                           int64_t bytes)
{
    const lk_tiling *t = w->plan->tiling;
    int64_t groups = lk_tiling_leaves(t), axes = 0, sent = 0;
    for (int d = LK_TILE_AXES - 1; d >= 0; d--) {
        groups /= t->held[d].n;
        if (d < t->grid.ndim && t->grid.dim[d] > 1) {
            axes++;
            sent += groups * bytes;
        }
    }
    return LK_TRACE(add(w, (lk_transfer){when, LK_JOINED, name, w->space, axes * calls, sent}));
}

/* A layer that normalises over all positions of each sample. */
static bool is_sample_norm(const lk_layer_instance *l)
{
    return l->window.ndim > 0 && l->kind == LK_TILE_SAMPLE;
}

/* Sums over tiles of batch norm, of shards, and of layer norm, of samples: two in forward, in backward two
 * in one call; then those of the batch. */
static lk_status sums_add(walk *w, lk_step_phase when, const lk_layer_instance *l, bool by_tile)
{
    const lk_joins *joins = when == LK_IN_FORWARD ? &l->forward : &l->backward;
    int64_t passes = w->samples > 0 ? w->passes : 0, bytes = 0;
    if (l->frozen && l->reach == LK_REACH_BATCH) /* by running statistics */
        return LK_OK;
    if (by_tile && l->reach == LK_REACH_BATCH)
        bytes = 2 * w->plan->shards.n * position_bytes(w, l->in, x_varies(w, l - w->net->instance));
    else if (by_tile && is_sample_norm(l))
        bytes = 2 * w->samples * (int64_t)lk_dtype_size(l->in.dtype);
    if (bytes > 0)
        LK_TRY(tiles_add(w, when, l->name, when == LK_IN_FORWARD ? 2 * passes : passes, bytes));
    int ranks = by_tile ? w->plan->ranks : w->all;
    if (joins->calls > 0 && ranks > 1)
        LK_TRY(add(w, (lk_transfer){when, LK_JOINED, l->name, ranks, joins->calls,
                                    joins->elements * (int64_t)lk_dtype_size(w->net->spec.dtype)}));
    return LK_OK;
}

/* A mean over positions: what tiles say of the samples of others, and back what their owner has. */
static lk_status mean_add(walk *w, lk_step_phase when, const lk_layer_instance *l)
{
    int64_t forward = lk_tiling_leaves(w->plan->tiling) * (w->samples - w->own);
    return LK_TRACE(
        add(w, (lk_transfer){when, LK_JOINED, l->name, w->space, w->passes,
                             (when == LK_IN_FORWARD ? forward : w->own) *
                                 position_bytes(w, l->in, x_varies(w, l - w->net->instance))}));
}

/* A layer that adds up all positions of a sample gives none. */
static bool is_mean(const lk_layer_instance *l)
{
    return l->summed == LK_SUMMED_IN && l->reach == LK_REACH_SAMPLE && !is_sample_norm(l);
}

static lk_change other_of(lk_change change)
{
    return change == LK_TO_SAMPLES ? LK_TO_TILES : LK_TO_SAMPLES;
}

/* Whether a layer's own node communicates; a sum or a window of a tile does, another by tile does not. */
static bool is_collective(const lk_layer_instance *l, const lk_layer_part *part)
{
    return part->by_tile &&
           (l->summed != LK_SUMMED_NOTHING || part->tile->kind != LK_TILE_POINTWISE);
}

/* Whether layer `i` of a list is one of the first of the model, which do not move and are not recorded. */
static bool is_still(const walk *w, int64_t list, int64_t i)
{
    return list == 0 && i < lk__model_still(w->model);
}

/* ---- forward ---- */

static lk_status list_forward(walk *w, int64_t list, bool needs, bool *made);

/* The lists of a layer: all take x, or each what the one before gives. */
static lk_status lists_forward(walk *w, const lk_layer_instance *l, bool needs, bool *made)
{
    bool follow = l->layer->flags & LK_LAYER_LISTS_FOLLOW, end;
    for (int i = 0; i < l->n_lists; i++) {
        LK_TRY(list_forward(w, l->list[i], needs, &end));
        *made = *made || end;
        needs = follow ? end : needs;
    }
    return LK_OK;
}

static lk_status layer_forward(walk *w, int64_t number, bool needs, bool *made)
{
    static const lk_layer_part whole;
    const lk_layer_instance *l = &w->net->instance[number];
    const lk_layer_part *part = w->plan->part ? &w->plan->part[number] : &whole;
    if (!w->plan->runs[number])
        return LK_OK;
    lk__sent_forward *sent = &w->sent[number];
    sent->first = w->plan->n_transfers;
    needs = needs || part->before != LK_STAY;
    w->needs[number] = needs;
    if (part->before != LK_STAY)
        LK_TRY(change_add(w, LK_IN_FORWARD, l->name, part->before, part->before_at, l->in,
                          in_varies(w, number)));
    LK_TRY(layer_features_add(w, LK_IN_FORWARD, number));
    needs = needs || part->features.before == LK_FEATURES_GATHER ||
            part->features.before == LK_FEATURES_GATHER_SUM;
    if (part->by_tile)
        LK_TRY(fetch_add(w, LK_IN_FORWARD, number, part->tile->get_x));
    if (part->by_tile)
        LK_TRY(filters_add(w, LK_IN_FORWARD, number, part->tile));
    LK_TRY(sums_add(w, LK_IN_FORWARD, l, part->by_tile));
    if (part->by_tile && is_mean(l))
        LK_TRY(mean_add(w, LK_IN_FORWARD, l));
    *made = needs || l->n_params > 0 || is_collective(l, part) || part->after != LK_STAY;
    LK_TRY(lists_forward(w, l, needs, made));
    sent->after = w->plan->n_transfers;
    if (part->after != LK_STAY)
        LK_TRY(change_add(w, LK_IN_FORWARD, l->name, part->after, part->after_at, l->out,
                          y_varies(w, number) && part->features.after == LK_FEATURES_STAY));
    sent->end = w->plan->n_transfers;
    return LK_OK;
}

static lk_status list_forward(walk *w, int64_t list, bool needs, bool *made)
{
    const lk__list *layers = &w->net->list[list];
    *made = needs;
    for (int64_t i = 0; i < layers->n; i++) {
        LK_TRY(layer_forward(w, layers->instance[i], *made, made));
        *made = *made && !is_still(w, list, i);
    }
    return LK_OK;
}

/* ---- backward ---- */

static lk_status list_backward(walk *w, int64_t list);

static lk_status layer_backward(walk *w, int64_t number)
{
    static const lk_layer_part whole;
    const lk_layer_instance *l = &w->net->instance[number];
    const lk_layer_part *part = w->plan->part ? &w->plan->part[number] : &whole;
    const lk_tile *tile = part->by_tile ? part->tile : NULL;
    if (!w->plan->runs[number])
        return LK_OK;
    if (part->after != LK_STAY)
        LK_TRY(change_add(w, LK_IN_BACKWARD, l->name, other_of(part->after), part->after_at, l->out,
                          y_varies(w, number) && part->features.after == LK_FEATURES_STAY));
    for (int i = l->n_lists - 1; i >= 0; i--)
        LK_TRY(list_backward(w, l->list[i]));
    LK_TRY(sums_add(w, LK_IN_BACKWARD, l, part->by_tile));
    if (tile && is_mean(l))
        LK_TRY(mean_add(w, LK_IN_BACKWARD, l));
    /* of a transposed convolution, the gradient of weights reads dy's margin, too */
    bool for_x = tile && (tile->kind == LK_TILE_CONV || tile->kind == LK_TILE_LOCAL_CONV);
    if (tile && (!for_x || w->needs[number])) {
        LK_TRY(fetch_add(w, LK_IN_BACKWARD, number, tile->get_dy));
        LK_TRY(filters_add(w, LK_IN_BACKWARD, number, tile));
    }
    LK_TRY(layer_features_add(w, LK_IN_BACKWARD, number));
    if (part->before != LK_STAY)
        LK_TRY(change_add(w, LK_IN_BACKWARD, l->name, other_of(part->before), part->before_at,
                          l->in, in_varies(w, number)));
    return LK_OK;
}

static lk_status list_backward(walk *w, int64_t list)
{
    const lk__list *layers = &w->net->list[list];
    for (int64_t i = layers->n - 1; i >= 0 && !is_still(w, list, i); i--)
        LK_TRY(layer_backward(w, layers->instance[i]));
    return LK_OK;
}

/* ---- behind the passes ---- */

/* Numbers of a loss that ranks exchange, added to *out: of the subtrees of all of them, of each tile where
 * the loss is tiled. */
static lk_status loss_count(const walk *w, bool tiled, int64_t *out)
{
    const lk_plan *p = w->plan;
    const lk_tiling *t = tiled ? p->tiling : NULL;
    int ranks = t ? p->ranks : w->all;
    int64_t tiles = t ? t->tiles[0] * t->tiles[1] * t->tiles[2] : 1, *first = NULL, n = 0;
    if (p->spec.fast) {
        *out += ranks * tiles;
        return LK_OK;
    }
    LK_TRY(lk_alloc_zero(&first, p->ranks + 1 + w->all + 1, sizeof *first));
    int64_t *own = first + p->ranks + 1;
    (void)lk__plan_deal(p, p->spec.shards, first);
    lk__plan_deal_samples(p, p->spec.shards, first, own);
    own = t || w->space == 1 ? first : own;
    for (int r = 0; r < ranks; r++)
        n += lk_range_subtrees(p->spec.shards, (lk_range){own[r], own[r + 1] - own[r]}, NULL);
    lk_free(first);
    *out += n * tiles;
    return LK_OK;
}

/* Those of all that count. */
static lk_status losses_count(const walk *w, int64_t *out)
{
    const lk_plan *p = w->plan;
    *out = 0;
    if (!p->spec.no_loss)
        LK_TRY(loss_count(w, p->loss_tiled, out));
    for (int64_t i = 0; i < w->net->n_terms; i++)
        if (p->counts[i])
            LK_TRY(loss_count(w, lk__plan_term_tiled(p, w->model, i), out));
    return LK_OK;
}

/* Gradients and statistics: a call for each range of the slab, then one along each axis of the tiles. */
static lk_status gradients_add(walk *w)
{
    lk_plan *p = w->plan;
    int64_t elem = (int64_t)lk_dtype_size(w->net->spec.dtype);
    lk_transfer all = {LK_BEFORE_UPDATE, LK_JOINED, "gradients", w->all, 0, 0},
                data = {LK_BEFORE_UPDATE, LK_JOINED, "gradients of replicas", p->ranks, 0, 0},
                scales;
    lk__grad_group *group = NULL;
    int n = 0;
    if (p->spec.bucket_bytes > 0 || p->direct)
        return LK_OK;
    lk_status st = lk__ranges_make(p, w->model, &group, &n);
    for (int i = 0; i < n; i++) {
        lk_transfer *t = group[i].share == LK__BY_SAMPLES ? &all : &data;
        if (group[i].share == LK__SUMMED || t->ranks == 1 || group[i].here == 0)
            continue;
        t->calls++;
        t->bytes += group[i].here * elem;
    }
    lk_free(group);
    LK_TRY(st);
    LK_TRY(lk__wire_transfers(p, w->model, &all, &scales));
    LK_TRY(add(w, scales));
    LK_TRY(add(w, all));
    LK_TRY(add(w, data));
    int64_t sums = lk__leaf_sums_elements(p, w->model);
    return sums > 0 ? tiles_add(w, LK_BEFORE_UPDATE, "gradients of tiles", 1, sums * elem) : LK_OK;
}

static lk_status buckets_add(walk *w)
{
    lk_plan *p = w->plan;
    lk__leaves leaves = lk__plan_leaves(p);
    int64_t elem = (int64_t)lk_dtype_size(w->net->spec.dtype);
    int64_t joined = lk__accumulator_bytes(w->model, &leaves) -
                     lk__accumulator_loss_bytes(w->model, &leaves);
    lk_transfer all = {LK_IN_BACKWARD, LK_JOINED, "gradients", w->all, 0, joined}, scales;
    if (p->spec.bucket_bytes == 0)
        return LK_OK;
    all.calls = lk__buckets_cut(w->model, joined / elem, p->spec.bucket_bytes, NULL, NULL);
    LK_TRY(lk__wire_transfers(p, w->model, &all, &scales));
    return add(w, all);
}

/* What goes to a neighbour behind layer number `layer` of the list, if there is one. */
static lk_status boundary_add(walk *w, lk_step_phase when, int64_t layer)
{
    const lk_plan *p = w->plan;
    if (layer < 0 || layer >= w->net->list[0].n - 1)
        return LK_OK;
    bool by_tile = lk__boundary_held(p, w->model, layer) != NULL;
    int64_t samples = by_tile ? w->samples : w->own;
    if (p->layer[w->net->list[0].instance[layer]].idle)
        samples = 0;
    return LK_TRACE(add(
        w, (lk_transfer){when, LK_SENT, w->net->instance[w->net->list[0].instance[layer]].name, 2,
                         p->microbatches, samples * lk__boundary_bytes(p, w->model, layer)}));
}

/* Gradients of the uses of parameters that other stages have too: each of this one's to each of these. */
static lk_status shared_add(walk *w)
{
    const lk_plan *p = w->plan;
    const lk__net *net = w->net;
    lk_transfer t = {LK_BEFORE_UPDATE, LK_SENT, "gradients of shared parameters", 2, 0, 0};
    for (int64_t i = 0; i < net->n_params; i++) {
        int64_t own = 0, others = 0;
        for (int s = 0; s < p->stages; s++) {
            int64_t here = 0;
            for (int64_t u = net->start[i].first_use; u >= 0; u = net->use[u].next)
                here += p->layer[net->use[u].instance].stage == s;
            own += s == p->stage ? here : 0;
            others += s != p->stage && here > 0;
        }
        t.calls += own * others;
        t.bytes += own * others * p->param_elements[i] * (int64_t)lk_dtype_size(net->spec.dtype);
    }
    return LK_TRACE(add(w, t));
}

/* Blocks of all parameters that are cut. */
static int64_t blocks_count(const walk *w)
{
    const lk_pieces *p = &w->net->spec.pieces;
    int64_t sum = 0;
    for (int64_t i = 0; i < w->net->n_params; i++) {
        const lk__owned *owned = &w->net->start[i].owned;
        int64_t n = owned->axis < 0 ? 0 : owned->axes.dim[owned->axis];
        if (lk__net_is_cut(w->net, owned))
            sum += (n - 1) / lk_block_size(n, p->blocks, p->least_block) + 1;
    }
    return sum;
}

/* A sum over all parameters, of a norm: of the blocks of those that are cut, and of those of all stages. */
static lk_status parameters_add(walk *w, int features)
{
    lk_plan *p = w->plan;
    int64_t blocks = features > 1 ? blocks_count(w) : 0,
            params = p->stages > 1 ? w->net->n_params : 0;
    p->sum_calls = (blocks > 0) + (p->stages > 1);
    p->sum_bytes = (blocks + params) * (int64_t)sizeof(double);
    if (!p->spec.clips)
        return LK_OK;
    LK_TRY(add(w, (lk_transfer){LK_BEFORE_UPDATE, LK_JOINED, "sums of blocks", features, blocks > 0,
                                blocks * (int64_t)sizeof(double)}));
    return LK_TRACE(
        add(w, (lk_transfer){LK_BEFORE_UPDATE, LK_JOINED, "sums over parameters", p->stages,
                             p->stages > 1, params * (int64_t)sizeof(double)}));
}

static lk_status step_walk(walk *w)
{
    bool made;
    lk_plan *p = w->plan;
    int features = p->split ? p->split->size : 1;
    int64_t losses = 0, n = p->n_layers, world = (int64_t)w->all * p->stages * features;
    LK_TRY(lk_alloc_zero(&w->needs, n + 1, sizeof *w->needs));
    LK_TRY(lk_alloc_zero(&w->sent, n + 1, sizeof *w->sent));
    LK_TRY(list_forward(w, 0, p->stage > 0, &made));
    LK_TRY(boundary_add(w, LK_IN_FORWARD, p->layers.first + p->layers.n - 1));
    if (p->stage == p->stages - 1 && !p->spec.no_loss)
        LK_TRY(out_features_add(w));
    LK_TRY(lk__transfers_again(p, w->model, w->sent, &w->max_transfers));
    LK_TRY(list_backward(w, 0));
    LK_TRY(boundary_add(w, LK_IN_BACKWARD, p->layers.first - 1));
    LK_TRY(buckets_add(w));
    LK_TRY(losses_count(w, &losses));
    LK_TRY(add(w, (lk_transfer){LK_BEFORE_UPDATE, LK_JOINED, "votes and loss", (int)world, 1,
                                (LK__N_VOTES + losses) * (int64_t)sizeof(int64_t)}));
    LK_TRY(gradients_add(w));
    if (p->stages > 1)
        LK_TRY(shared_add(w));
    LK_TRY(parameters_add(w, features));
    if (w->plan->spec.shared)
        LK_TRY(add(w, (lk_transfer){LK_AFTER_UPDATE, LK_JOINED, "updated", w->all, 1, 0}));
    return LK_OK;
}

lk_status lk__transfers_plan(lk_plan *p, const lk_model *model)
{
    int space = p->tiling ? p->tiling->size : 1;
    walk w = {.plan = p,
              .model = model,
              .net = model->net,
              .passes = p->stages > 1                               ? p->microbatches
                        : model->net->has_weight_reuse && space > 1 ? p->shards.n
                                                                    : 1,
              .samples = p->samples.n,
              .own = p->owned.n,
              .space = space,
              .all = p->ranks * space};
    if (w.all == 1 && p->stages == 1 && (!p->split || p->split->size == 1))
        return LK_OK;
    lk_status st = step_walk(&w);
    lk_free(w.needs);
    lk_free(w.sent);
    return LK_TRACE(st);
}
