/* lk_model_hold(): memory for the boxes that a model holds of its parameters and state, and their
 * initial values.  Called once after lk_model_build(), by the program or a job.
 */
#include "base/memory/rehearsal.h"
#include "nn/model.h"

#include <string.h>

void lk__tensors_free(lk_tensor **tensor, int64_t n)
{
    for (int64_t i = 0; tensor && i < n; i++)
        lk_tensor_free(tensor[i]);
    lk_free(tensor);
}

lk_status lk__slab_tensors(const lk_slab *slab, int64_t first, int64_t n, lk_tensor ***out)
{
    lk_status st;
    lk_tensor **tensor = NULL;
    *out = NULL;
    LK_TRY(lk_alloc_zero(&tensor, n, sizeof *tensor));
    for (int64_t i = 0; i < n; i++)
        LK_TRY_TO(fail, lk_slab_tensor(slab, first + i, &tensor[i]));
    *out = tensor;
    return LK_OK;
fail:
    lk__tensors_free(tensor, n);
    return st;
}

/* ---- which part ---- */

/* lk_holding with all ranges. */
typedef struct held_part {
    lk_range layers, blocks, tiles[3];
    int64_t n_tiles[3]; /* of the whole */
} held_part;

static lk_status range_fill(const char *what, const lk_range *range, int64_t there, lk_range *out)
{
    *out = range ? *range : (lk_range){0, there};
    LK_CHECK(out->first >= 0 && out->n >= 0 && out->n <= there && out->first <= there - out->n,
             LK_EINVAL, "%lld %s from number %lld on are to be held, of a model of %lld",
             (long long)out->n, what, (long long)out->first, (long long)there);
    return LK_OK;
}

static int64_t tiles_along(const lk__net *net, int axis)
{
    return net->spec.pieces.tile[axis] > 1 ? net->spec.pieces.tile[axis] : 1;
}

static lk_status part_fill(const lk__net *net, const lk_holding *holding, held_part *out)
{
    LK_TRY(range_fill("layers", holding->layers, net->list[0].n, &out->layers));
    LK_TRY(range_fill("blocks", holding->blocks, net->spec.pieces.blocks, &out->blocks));
    for (int i = 0; i < 3; i++) {
        int64_t tiles = tiles_along(net, i);
        out->n_tiles[i] = tiles;
        LK_TRY(
            range_fill("tiles", holding->tiles ? &holding->tiles[i] : NULL, tiles, &out->tiles[i]));
    }
    return LK_OK;
}

/* ---- positions ---- */

/* What some tiles of `all` have of an axis of n. */
static lk_range axis_range(int64_t n, lk_range tiles, int64_t all, int64_t step)
{
    if (tiles.n == 0)
        return (lk_range){0, 0};
    int64_t first = lk_tile_range(n, tiles.first, all, step).first;
    lk_range last = lk_tile_range(n, tiles.first + tiles.n - 1, all, step);
    return (lk_range){first, last.first + last.n - first};
}

/* Of the first axes of a box, which are `positions`, what the tiles have; if that is nothing, of none. */
static void positions_cut(const lk__net *net, int positions, const held_part *part, lk_box *box)
{
    bool some = true;
    for (int d = 0; d < positions; d++) {
        lk_range range = axis_range(box->n[d], part->tiles[d], part->n_tiles[d],
                                    lk__net_tile_step(net));
        box->first[d] = range.first;
        box->n[d] = range.n;
        some = some && range.n > 0;
    }
    for (int d = 0; d < positions && !some; d++)
        box->first[d] = box->n[d] = 0;
}

/* The box of a tensor that is held, of the shape owned->axes, of which the first may be positions; an axis
 * of one block is not cut. */
static lk_box box_of(const lk__net *net, const lk__owned *owned, int positions,
                     const held_part *part)
{
    lk_box box = lk_box_whole(owned->axes.ndim, owned->axes.dim);
    if (!owned->held) {
        memset(box.n, 0, sizeof box.n);
        return box;
    }
    positions_cut(net, positions, part, &box);
    if (owned->axis < 0)
        return box;
    int64_t n = owned->axes.dim[owned->axis];
    int64_t size = lk_block_size(n, net->spec.pieces.blocks, net->spec.pieces.least_block);
    if (size >= n)
        return box;
    lk_range range = lk_block_range(n, size, part->blocks);
    box.first[owned->axis] = range.first;
    box.n[owned->axis] = range.n;
    return box;
}

/* Add `box` of slice `i` of the whole to what is held. */
static lk_status slice_hold(const lk_slab_layout *whole, int64_t i, const lk__owned *owned,
                            lk_box box, lk_slab_layout *held)
{
    lk_slab_slice slice;
    lk_box all = lk_box_whole(owned->axes.ndim, owned->axes.dim);
    LK_TRY(lk_slab_layout_slice(whole, i, &slice));
    if (lk_box_is_equal(&box, &all))
        LK_TRY(lk_slab_layout_add(held, slice.name, slice.dtype, slice.shape));
    else
        LK_TRY(
            lk_slab_layout_add_box(held, slice.name, slice.dtype, slice.shape, owned->axes, &box));
    return LK_OK;
}

/* ---- parameters ---- */

enum { CHUNK = 4096 }; /* elements that are drawn at a time */

/* Elements of a tensor from `place` on become those of the array from `at` on: drawn in f64, rounded
 * once. */
static lk_status stretch_draw(const lk_init *init, lk_init_call *call, const lk_box_walk *walk,
                              lk_dtype dtype, void *array)
{
    for (int64_t i = 0; i < walk->n; i += CHUNK) {
        call->elements.first = walk->place + i;
        call->elements.n = walk->n - i < CHUNK ? walk->n - i : CHUNK;
        LK_TRY(init->fill(call));
        if (dtype == LK_F64)
            memcpy((double *)array + walk->at + i, call->out,
                   (size_t)call->elements.n * sizeof(double));
        for (int64_t k = 0; dtype == LK_F32 && k < call->elements.n; k++)
            ((float *)array)[walk->at + i + k] = (float)call->out[k];
    }
    return LK_OK;
}

/* Draw what is held of parameter `i`. */
static lk_status param_fill(lk__net *net, int64_t i, double *room)
{
    lk_slab_slice slice;
    const lk__param_start *start = &net->start[i];
    LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(net->params), i, &slice));
    lk_init_call call = {.options = start->init.options,
                         .stream = lk_rng_start(net->spec.seed, slice.name, "init"),
                         .fan_in = start->fan_in,
                         .fan_out = start->fan_out,
                         .out = room};
    lk_box_walk walk = lk_box_start(&slice.box, slice.box_of.dim);
    while (lk_box_next(&walk))
        LK_TRY(stretch_draw((const lk_init *)(const void *)start->init.descriptor, &call, &walk,
                            slice.dtype, (char *)lk_slab_data(net->params) + slice.offset));
    return LK_OK;
}

/* Memory for the parameters; if there is not enough, say who wants the most. */
static lk_status params_new(lk__net *net, lk_slab_layout *layout)
{
    lk_slab_slice slice, largest = {.name = NULL};
    lk_status st = lk_slab_new(layout, &net->params);
    for (int64_t i = 0; st == LK_ENOMEM && i < net->n_params; i++)
        if (lk_slab_layout_slice(layout, i, &slice) == LK_OK &&
            (!largest.name || slice.count > largest.count))
            largest = slice;
    LK_CHECK(!largest.name, LK_ENOMEM,
             "there is no memory for %lld bytes of parameters; the largest is %s %s",
             (long long)lk_slab_layout_bytes(layout), largest.name, lk_slab_slice_text(&largest).s);
    return st;
}

static lk_status params_hold(lk__net *net, const held_part *part)
{
    lk_status st;
    lk_slab_layout *layout = NULL;
    double *room = NULL;
    LK_TRY_TO(done, lk_slab_layout_new(&layout));
    for (int64_t i = 0; i < net->n_params; i++)
        net->start[i].owned.held = false;
    for (int64_t i = 0; i < net->n_uses; i++)
        if (lk__range_has(part->layers, net->use[i].layer))
            net->start[net->use[i].param].owned.held = true;
    for (int64_t i = 0; i < net->n_params; i++) {
        const lk__owned *owned = &net->start[i].owned;
        lk_box box = box_of(net, owned, lk__net_positions(net, i), part);
        LK_TRY_TO(done, slice_hold(net->params_layout, i, owned, box, layout));
    }
    LK_TRY_TO(done, params_new(net, layout));
    LK_TRY_TO(done, lk__slab_tensors(net->params, 0, net->n_params, &net->param));
    LK_TRY_TO(done, lk_alloc(&room, CHUNK, sizeof *room));
    for (int64_t i = 0; i < net->n_params && !lk__rehearses(); i++)
        LK_TRY_TO(done, param_fill(net, i, room));
done:
    lk_free(room);
    lk_slab_layout_free(layout);
    return st;
}

/* ---- state ---- */

static lk_status state_hold(lk__net *net, const held_part *part)
{
    lk_status st;
    lk_slab_layout *layout = NULL;
    LK_TRY_TO(done, lk_slab_layout_new(&layout));
    for (int64_t i = 0; i < net->n_state; i++) {
        net->moving[i].owned.held = lk__range_has(part->layers, net->moving[i].owned.layer);
        lk_box box = box_of(net, &net->moving[i].owned, 0, part);
        LK_TRY_TO(done, slice_hold(net->state_layout, i, &net->moving[i].owned, box, layout));
    }
    LK_TRY_TO(done, lk_slab_new(layout, &net->state));
    LK_TRY_TO(done, lk__slab_tensors(net->state, 0, net->n_state, &net->state_of));
    for (int64_t i = 0; i < net->n_state; i++)
        LK_TRY_TO(done, lk_tensor_fill_f64(net->state_of[i], net->moving[i].start));
done:
    lk_slab_layout_free(layout);
    return st;
}

lk_status lk__net_hold(lk__net *net, const lk_holding *holding)
{
    held_part part;
    LK_TRY(part_fill(net, holding ? holding : &(lk_holding){.layers = NULL}, &part));
    LK_TRY(params_hold(net, &part));
    return LK_TRACE(state_hold(net, &part));
}

/* Exchange what the model holds with what is kept. */
static void held_swap(lk__net *net, lk__kept *kept)
{
    lk__kept own = {net->params, net->state, net->param, net->state_of};
    net->params = kept->params;
    net->state = kept->state;
    net->param = kept->param;
    net->state_of = kept->state_of;
    *kept = own;
}

lk_status lk__model_pretend(lk_model *model, const lk_holding *holding, lk__kept *kept)
{
    *kept = (lk__kept){.params = NULL};
    held_swap(model->net, kept);
    lk_status st = lk__net_hold(model->net, holding);
    if (st != LK_OK)
        lk__model_recover(model, kept);
    return LK_TRACE(st);
}

void lk__model_recover(lk_model *model, lk__kept *kept)
{
    lk__net *net = model->net;
    held_swap(net, kept);
    lk__tensors_free(kept->param, net->n_params);
    lk__tensors_free(kept->state_of, net->n_state);
    lk_slab_free(kept->params);
    lk_slab_free(kept->state);
    for (int64_t i = 0; i < net->n_params; i++)
        net->start[i].owned.held = true;
    for (int64_t i = 0; i < net->n_state; i++)
        net->moving[i].owned.held = true;
}

void lk__model_set_tiles(lk_model *model, const int64_t *tiles, int64_t least)
{
    memcpy(model->net->spec.pieces.tile, tiles, sizeof model->net->spec.pieces.tile);
    model->net->spec.pieces.least_tile = least;
}

int64_t lk__model_part_count(const lk_model *model, int64_t param, const int64_t *n_tiles,
                             const lk_range *tiles, const lk_range *blocks)
{
    const lk__net *net = model->net;
    held_part part = {.layers = {0, net->list[0].n}, .blocks = {0, net->spec.pieces.blocks}};
    memcpy(part.tiles, tiles, sizeof part.tiles);
    if (blocks)
        part.blocks = *blocks;
    for (int i = 0; i < 3; i++)
        part.n_tiles[i] = n_tiles[i] > 1 ? n_tiles[i] : 1;
    int positions = lk__net_positions_in(net, param, part.n_tiles);
    lk_box box = box_of(net, &net->start[param].owned, positions, &part);
    return lk_box_count(&box);
}

lk_status lk__model_check_layers(const lk_model *model, lk_range layers)
{
    const lk__net *net = model->net;
    for (int64_t i = 0; i < net->n_params; i++) {
        bool want = false;
        for (int64_t u = net->start[i].first_use; u >= 0; u = net->use[u].next)
            want = want || lk__range_has(layers, net->use[u].layer);
        LK_CHECK(net->start[i].owned.held == want, LK_ESTATE,
                 "this rank of the layout needs %s%s, and the model holds something else: leave "
                 "lk_model_hold() to the trainer, which then holds what each rank needs",
                 want ? "" : "nothing of ", net->use[net->start[i].first_use].name);
    }
    return LK_OK;
}

lk_status lk__model_check_boxes(const lk_model *model, const lk_range *blocks,
                                const lk_range *tiles)
{
    held_part part = {.n_tiles = {1, 1, 1}};
    lk_slab_slice slice;
    const lk__net *net = model->net;
    LK_TRY(part_fill(net, &(lk_holding){.blocks = blocks, .tiles = tiles}, &part));
    for (int64_t i = 0; i < net->n_params; i++) {
        lk_box want = box_of(net, &net->start[i].owned, lk__net_positions(net, i), &part);
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(net->params), i, &slice));
        int64_t elements;
        LK_TRY(lk_shape_count(slice.shape, &elements));
        bool same = lk_box_count(&want) == slice.count &&
                    (slice.count == 0 || slice.count == elements ||
                     lk_box_is_equal(&want, &slice.box));
        slice.box = want;
        slice.box_of = net->start[i].owned.axes;
        LK_CHECK(same, LK_ESTATE,
                 "of %s this rank of the layout needs %s, and the model holds something else: "
                 "leave lk_model_hold() to the trainer, which then holds what each rank needs",
                 slice.name, lk_slab_slice_text(&slice).s);
    }
    return LK_OK;
}

static const lk_descriptor *init_at(int i)
{
    return lk_inits[i] ? &lk_inits[i]->descriptor : NULL;
}

const lk_registry lk_registry_init = {
    .name = "init", .plural = "inits", .summary = "what a parameter begins with", .at = init_at};
