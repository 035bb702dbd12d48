/* Where a trainer's rank is in the layout, and what it holds of the model: the layers of its stage; of
 * parameters that are cut into blocks those of its place along features; and of
 * parameters that each position has its own of (local_conv, layer_norm over all axes), where space is cut,
 * those of its tiles.  lk_trainer_new() calls it, on all ranks.
 */
#include "nn/model.h"
#include "optim/optimizer.h"
#include "parallel/pipeline/stages.h"
#include "train/same.h"
#include "train/trainer.h"

#include <lockstep/extra/plan.h>
#include <lockstep/log.h>

#include <stdio.h>

/* The layout that the options say. */
static lk_mesh_shape mesh_shape(const lk_trainer *t)
{
    const lk_parallel_options *p = &t->spec.parallel;
    lk_mesh_shape shape = {.data = p->data,
                           .features = t->chained ? 1 : t->spec.parallel.features,
                           .stages = t->chained ? 1 : t->spec.parallel.stages};
    for (int i = 0; !t->chained && i < p->spatial.n && i < 3; i++) {
        shape.space[i] = p->spatial.item[i];
        shape.ndim = i + 1;
    }
    if (t->chained)
        shape.data = 0;
    return shape;
}

/* Tiles of the run along each axis; in fast mode, what each rank has is one. */
static void tiles_count(const lk_trainer *t, int64_t tiles[3])
{
    bool fast = t->spec.parallel.mode == LK_REDUCTION_FAST;
    const lk_grid *space = &t->mesh->space;
    for (int d = 0; d < 3; d++) {
        tiles[d] = fast ? (d < space->ndim ? space->dim[d] : 1) : t->spec.pieces.tile[d];
        tiles[d] = tiles[d] > 1 ? tiles[d] : 1;
    }
}

/* The layers of this rank's stage. */
static lk_status layers_find(const lk_trainer *t, lk_range *out)
{
    const lk_mesh *m = t->mesh;
    int64_t *first = NULL;
    int stage = m->at[LK_AXIS_STAGES];
    LK_TRY(lk_alloc(&first, m->n[LK_AXIS_STAGES] + 1, sizeof *first));
    lk_status st = lk__stages_cut(t->spec.model, m->n[LK_AXIS_STAGES], first);
    if (st == LK_OK)
        *out = (lk_range){first[stage], first[stage + 1] - first[stage]};
    lk_free(first);
    return LK_TRACE(st);
}

/* The blocks of this rank. */
static lk_status blocks_find(const lk_trainer *t, lk_range *out)
{
    const lk_mesh *m = t->mesh;
    int64_t *first = NULL, blocks = t->spec.model->net->spec.pieces.blocks;
    int ranks = m->n[LK_AXIS_FEATURES], rank = m->at[LK_AXIS_FEATURES];
    LK_CHECK(ranks <= blocks, LK_EINVAL,
             "parallel.features %d is more than pieces.blocks, %lld: the line `pieces: {blocks: "
             "%d}` allows it, as another run with other bits",
             ranks, (long long)blocks, ranks);
    LK_TRY(lk_alloc(&first, ranks + 1, sizeof *first));
    lk_subtree_partition(blocks, ranks, first);
    *out = (lk_range){first[rank], first[rank + 1] - first[rank]};
    lk_free(first);
    return LK_OK;
}

/* A model that holds nothing yet holds what this rank needs; another must have been told so. */
static lk_status model_hold(lk_trainer *t)
{
    lk_model *model = t->spec.model;
    int64_t tiles[3];
    lk_range own[3], layers = {0, 0}, blocks = {0, 0};
    tiles_count(t, tiles);
    lk_mesh_tiles(t->mesh, tiles, own);
    lk__model_set_tiles(model, tiles, t->spec.pieces.least_tile);
    for (int64_t i = 0; i < model->net->n_params && t->mesh->n[LK_AXIS_SPACE] > 1; i++)
        t->spread = t->spread || lk__net_positions(model->net, i) > 0;
    LK_TRY(layers_find(t, &layers));
    LK_TRY(blocks_find(t, &blocks));
    lk_holding holding = {.layers = &layers, .blocks = &blocks, .tiles = own};
    if (!lk_model_params(model)) {
        return LK_TRACE(lk_model_hold(model, &holding));
    }
    if (t->mesh->n[LK_AXIS_STAGES] > 1)
        LK_TRY(lk__model_check_layers(model, layers));
    if (t->spread || t->mesh->n[LK_AXIS_FEATURES] > 1)
        LK_TRY(lk__model_check_boxes(model, &blocks, own));
    else if (t->mesh->n[LK_AXIS_STAGES] == 1)
        LK_TRY(lk__model_check_whole(model));
    return LK_OK;
}

/* Tiles that no layer runs by. */
static void tiles_log(const lk_plan *p)
{
    if (!p->tiling || p->tiles_fit || p->spec.fast)
        return;
    char tiles[80];
    for (int d = 0, at = 0; d < p->tiling->ndim; d++)
        at += snprintf(tiles + at, sizeof tiles - (size_t)at, "%s%lld", d ? "x" : "",
                       (long long)p->tiling->tiles[d]);
    lk_log_write(
        LK_LOG_WARN,
        "pieces.tiles %s fit nothing in this model: no layer runs by tiles, as values have "
        "fewer axes, or tiles fewer positions than pieces.least_tile %lld; leave them out%s",
        tiles, (long long)p->spec.pieces.least_tile,
        p->tiling->size > 1 ? ", and parallel.spatial" : "");
}

/* Ranks along features that share nothing; of stages a plan has the parts of its own alone. */
static void features_log(const lk_plan *p, int64_t stages)
{
    if (!p->split || p->split->size < 2 || stages > 1)
        return;
    for (int64_t i = 0; i < p->n_layers; i++)
        if (p->part[i].features.x || p->part[i].features.y)
            return;
    lk_log_write(
        LK_LOG_WARN,
        "parallel.features %d cut nothing in this model, and its ranks all do the same: no "
        "layer has two blocks of at least pieces.least_block %lld features; leave it out, "
        "or give a smaller pieces.least_block, which is another run",
        p->split->size, (long long)p->spec.pieces.least_block);
}

void lk__unused_pieces_log(const lk_trainer *t)
{
    if (lk__trainer_rank(t) > 0)
        return;
    tiles_log(t->plan);
    features_log(t->plan, t->spec.parallel.stages);
}

/* ---- numbers over all parameters ---- */

static lk_status positions_join(void *comm, double *sum, int64_t n)
{
    return LK_TRACE(lk_allreduce(comm, NULL, sum, n, LK_F64, LK_REDUCE_SUM, "sums of positions"));
}

lk_status lk__positions_make(lk_trainer *t)
{
    const lk__net *net = t->spec.model->net;
    int64_t tiles[3], most = 0;
    int *axes = NULL;
    tiles_count(t, tiles);
    if (tiles[0] == 1 && tiles[1] == 1 && tiles[2] == 1)
        return LK_OK; /* as in every run that is not cut */
    LK_TRY(lk_arena_alloc(t->arena, &axes, net->n_params, sizeof *axes));
    for (int64_t i = 0; i < net->n_params; i++) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(net->params_layout, i, &slice));
        axes[i] = lk__net_positions(net, i);
        lk_box all = lk_box_whole(axes[i], slice.shape.dim);
        if (axes[i] > 0 && lk_box_count(&all) > most)
            most = lk_box_count(&all);
    }
    if (most == 0)
        return LK_OK;
    t->positions.axes = axes;
    t->positions.join = t->spread ? positions_join : NULL;
    t->positions.context = t->mesh->along[LK_AXIS_SPACE];
    return LK_TRACE(lk_arena_alloc(t->arena, &t->positions.sum, 2 * most, sizeof(double)));
}

static lk_status blocks_join(void *comm, double *sum, int64_t n)
{
    /* As integers, of which one rank has the bits and the others 0: nothing is rounded. */
    return LK_TRACE(lk_allreduce(comm, NULL, (int64_t *)(void *)sum, n, LK_I64, LK_REDUCE_SUM,
                                 "sums of blocks"));
}

/* How a parameter is cut; the elements before the axis that is, into *outer. */
static lk_optimizer_cut cut_of(const lk__net *net, int64_t param, lk_range blocks, int64_t *outer)
{
    const lk__owned *owned = &net->start[param].owned;
    lk_optimizer_cut cut = {.inner = 1};
    *outer = 1;
    if (!lk__net_is_cut(net, owned))
        return cut;
    for (int d = 0; d < owned->axes.ndim; d++)
        *(d < owned->axis ? outer : &cut.inner) *= d == owned->axis ? 1 : owned->axes.dim[d];
    cut.n = owned->axes.dim[owned->axis];
    cut.block = lk_block_size(cut.n, net->spec.pieces.blocks, net->spec.pieces.least_block);
    cut.held = lk_block_range(cut.n, cut.block, blocks);
    return cut;
}

lk_status lk__blocks_make(lk_trainer *t)
{
    const lk__net *net = t->spec.model->net;
    lk_optimizer_cut *cut = NULL;
    int64_t all = 0, room = 0;
    lk_range blocks;
    if (net->spec.pieces.blocks <= 1)
        return LK_OK;
    LK_TRY(blocks_find(t, &blocks));
    LK_TRY(lk_arena_alloc(t->arena, &cut, net->n_params, sizeof *cut));
    for (int64_t i = 0; i < net->n_params; i++) {
        int64_t outer, here;
        cut[i] = cut_of(net, i, blocks, &outer);
        all += lk__cut_blocks(&cut[i]);
        here = cut[i].n > 0 ? lk__blocks_room(&cut[i], outer) : 0;
        room = here > room ? here : room;
    }
    if (all == 0)
        return LK_OK;
    t->blocks.cut = cut;
    t->blocks.join = t->mesh->along[LK_AXIS_FEATURES] ? blocks_join : NULL;
    t->blocks.context = t->mesh->along[LK_AXIS_FEATURES];
    LK_TRY(lk_arena_alloc(t->arena, &t->blocks.sum, all, sizeof(double)));
    if (!lk__optimizer_splits(t->optimizer)) /* it takes numbers over all parameters */
        LK_TRY(lk_arena_alloc(t->arena, &t->blocks.room, room, sizeof(double)));
    return LK_OK;
}

/* ---- all of it ---- */

lk_status lk__trainer_place(lk_trainer *t)
{
    lk_mesh_shape shape = mesh_shape(t);
    if (!t->chained) {
        LK_TRY(lk__layout_compare(t));
        LK_TRY(lk__trainer_ranks_check(&t->spec, t->spec.comm ? lk_comm_size(t->spec.comm) : 1));
    }
    LK_TRY(lk_mesh_new(t->spec.comm, &shape, &t->mesh));
    if (!t->chained)
        LK_TRY(lk_agree(t->spec.comm, model_hold(t)));
    return LK_OK;
}
