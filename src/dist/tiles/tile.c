/* lk_tile: what a rank does of one layer.  Made by a host, or by the trainer from its plan for each layer
 * that runs by tiles; the ops on tiles take it, on the communicator's thread.
 */
#include "dist/common/tiles.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

static lk_status bounds_check(const lk_tiling *t, const lk_tile_bounds *b, const int64_t *n,
                              const char *what)
{
    for (int d = 0; d < t->ndim; d++) {
        const int64_t *at = b->axis[d];
        bool ascends = !at || (at[0] == 0 && at[t->tiles[d]] == n[d]);
        for (int64_t i = 0; at && ascends && i < t->tiles[d]; i++)
            ascends = at[i] <= at[i + 1];
        LK_CHECK(ascends, LK_EINVAL,
                 "bounds of axis %d of the %s: they must ascend from 0 to its size, %lld", d, what,
                 (long long)n[d]);
    }
    return LK_OK;
}

/* Outputs that are computed together must not be cut apart: groups begin where tiles do. */
static lk_status grid_check(const lk_tiling *t, const lk_tile_bounds *b, const int64_t *n,
                            int64_t grid)
{
    for (int d = 0; d < t->ndim && grid > 1; d++) {
        const int64_t *at = b->axis[d];
        LK_CHECK(at || t->tiles[d] == 1 || t->step % grid == 0, LK_EINVAL,
                 "the layer computes %lld positions together, but tiles are cut at multiples of "
                 "%lld: give the tiling a step of %lld",
                 (long long)grid, (long long)t->step, (long long)grid);
        for (int64_t i = 0; at && i < t->tiles[d]; i++)
            LK_CHECK(at[i] % grid == 0 || at[i] == n[d], LK_EINVAL,
                     "the layer computes %lld positions together, but a tile begins at %lld of "
                     "axis %d",
                     (long long)grid, (long long)at[i], d);
    }
    return LK_OK;
}

/* Sums and products of such numbers are not too large for 64 bits. */
static lk_status axis_check(const lk_tile_spec *s, int d)
{
    const int64_t most = (int64_t)1 << 30;
    const lk_window *w = &s->window;
    const struct {
        const char *name;
        int64_t value, least;
    } number[] = {{"in", s->in[d], 0},
                  {"out", s->out[d], 0},
                  {"kernel", w->kernel[d], s->kind == LK_TILE_POINTWISE ? 0 : 1},
                  {"stride", w->stride[d], 0},
                  {"dilation", w->dilation[d], 0},
                  {"pad_lo", w->pad_lo[d], -most},
                  {"pad_hi", w->pad_hi[d], -most},
                  {"the window's grid", w->grid, 0}};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        LK_CHECK(number[i].value >= number[i].least && number[i].value <= most, LK_EINVAL,
                 "axis %d: %s is %lld: it can be %lld to %lld", d, number[i].name,
                 (long long)number[i].value, (long long)number[i].least, (long long)most);
    return LK_OK;
}

lk_status lk__tile_spec_check(const lk_tiling *t, const lk_tile_spec *s)
{
    LK_CHECK(s->kind >= LK_TILE_POINTWISE && s->kind <= LK_TILE_SAMPLE, LK_EINVAL,
             "a layer of the kind %d", (int)s->kind);
    LK_CHECK(s->window.ndim >= t->ndim && s->window.ndim <= LK_TILE_AXES, LK_EINVAL,
             "a layer of %d spatial axes, of which %d are cut", s->window.ndim, t->ndim);
    for (int d = 0; d < s->window.ndim; d++)
        LK_TRY(axis_check(s, d));
    LK_TRY(bounds_check(t, &s->in_bounds, s->in, "input"));
    LK_TRY(bounds_check(t, &s->out_bounds, s->out, "output"));
    LK_TRY(grid_check(t, &s->in_bounds, s->in, s->window.grid));
    return LK_TRACE(grid_check(t, &s->out_bounds, s->out, s->window.grid));
}

/* What is read or written of a value must be in the box that its array is. */
static lk_status box_check(const char *what, const lk_box *box, const lk_box *part)
{
    int d = 0;
    if (lk__box_has(box, part))
        return LK_OK;
    while (d + 1 < box->ndim && box->first[d] <= part->first[d] &&
           part->first[d] + part->n[d] <= box->first[d] + box->n[d])
        d++;
    return LK_RAISE(LK_EINVAL,
                    "the box of %s does not hold all that the layer reads or writes of it: along "
                    "axis %d these are positions %lld to %lld, and the box has %lld to %lld; widen "
                    "it, or let lk_tiling_hold() do that",
                    what, d, (long long)part->first[d],
                    (long long)(part->first[d] + part->n[d] - 1), (long long)box->first[d],
                    (long long)(box->first[d] + box->n[d] - 1));
}

/* The box that an array is: as given, or the hull of what is read and written.  The value has the sizes
 * n. */
static lk_status box_fill(const char *what, const lk_box *given, const int64_t *n,
                          const lk_box *const parts[3], lk_box *out)
{
    LK_CHECK(given->ndim == 0 || (given->ndim == parts[0]->ndim && lk_box_is_within(given, n)),
             LK_EINVAL, "the box of %s, of %d axes, reaches out of a value of %d", what,
             given->ndim, parts[0]->ndim);
    *out = given->ndim > 0 ? *given : *parts[0];
    for (int i = 0; i < 3; i++) {
        if (given->ndim == 0)
            *out = lk__box_hull(out, parts[i]);
        LK_TRY(box_check(what, out, parts[i]));
    }
    return LK_OK;
}

lk_status lk__tile_fetch_make(const lk_tiling *t, const lk_tile_spec *s, bool forward,
                              lk_fetch **out)
{
    lk_box *own = NULL;
    LK_TRY(lk_alloc_zero(&own, (int64_t)2 * t->size, sizeof *own));
    lk_box *want = own + t->size;
    for (int r = 0; r < t->size; r++) {
        lk__tile_reach reach = lk__tile_reach_of(t, r, s);
        own[r] = forward ? reach.x_tile : reach.y_tile;
        want[r] = forward ? reach.x_reads : reach.dy_reads;
    }
    lk_status st = lk_fetch_new(t, own, want, out);
    lk_free(own);
    return LK_TRACE(st);
}

/* A copy of bounds in one block, which the first of them that there is begins. */
static lk_status bounds_copy(const lk_tiling *t, const lk_tile_bounds *from, lk_tile_bounds *to)
{
    int64_t n = 0, *at = NULL;
    for (int d = 0; d < t->ndim; d++)
        n += from->axis[d] ? t->tiles[d] + 1 : 0;
    if (n == 0)
        return LK_OK;
    LK_TRY(lk_alloc(&at, n, sizeof *at));
    for (int d = 0; d < t->ndim; d++)
        if (from->axis[d]) {
            to->axis[d] = at;
            memcpy(at, from->axis[d], (size_t)(t->tiles[d] + 1) * sizeof *at);
            at += t->tiles[d] + 1;
        }
    return LK_OK;
}

static void bounds_free(lk_tile_bounds *b)
{
    for (int d = 0; d < LK_TILE_AXES; d++)
        if (b->axis[d]) {
            lk_free((void *)(uintptr_t)b->axis[d]);
            return;
        }
}

static lk_status tile_fill(const lk_tile_spec *s, lk_tile *tile)
{
    const lk_tiling *t = tile->tiling;
    lk__tile_reach r = lk__tile_reach_of(t, t->rank, s);
    lk_box *leaf = NULL;
    tile->x.tile = r.x_tile;
    tile->y.tile = r.y_tile;
    tile->x_reads = r.x_reads;
    tile->y_makes = r.y_makes;
    tile->dy_reads = r.dy_reads;
    LK_TRY(box_fill("x", &s->x_box, s->in,
                    (const lk_box *const[]){&r.x_tile, &r.x_reads, &r.x_reads}, &tile->x.box));
    LK_TRY(box_fill("y", &s->y_box, s->out,
                    (const lk_box *const[]){&r.y_tile, &r.y_makes, &r.dy_reads}, &tile->y.box));
    LK_TRY(lk_alloc_zero(&leaf, 2 * tile->leaves, sizeof *leaf));
    tile->x_leaf = leaf;
    tile->y_leaf = leaf + tile->leaves;
    for (int64_t i = 0; i < tile->leaves; i++) {
        leaf[i] = lk__tiling_leaf(t, i, s->window.ndim, s->in, &s->in_bounds);
        leaf[tile->leaves + i] = lk__tiling_leaf(t, i, s->window.ndim, s->out, &s->out_bounds);
    }
    LK_TRY(bounds_copy(t, &s->in_bounds, &tile->in_bounds));
    LK_TRY(lk__tile_fetch_make(t, s, true, &tile->get_x));
    LK_TRY(lk__tile_fetch_make(t, s, false, &tile->get_dy));
    if (s->kind == LK_TILE_LOCAL_CONV || s->kind == LK_TILE_LOCAL_CONV_TRANSPOSE) {
        LK_TRY(lk_alloc_zero(&tile->weights, 1, sizeof *tile->weights));
        LK_TRY(lk__tile_fetch_make(t, s, s->kind != LK_TILE_LOCAL_CONV, &tile->weights->get));
    }
    return LK_OK;
}

lk_status lk_tile_new(const lk_tiling *tiling, const lk_tile_spec *spec, lk_tile **out)
{
    lk_tile *tile = NULL;
    LK_CHECK(tiling && spec && out, LK_EINVAL, "tiling, spec or out is NULL");
    *out = NULL;
    LK_TRY(lk__tile_spec_check(tiling, spec));
    LK_TRY(lk_alloc_zero(&tile, 1, sizeof *tile));
    tile->tiling = tiling;
    tile->kind = spec->kind;
    tile->window = spec->window;
    tile->leaves = lk_tiling_leaves(tiling);
    for (int d = 0; d < spec->window.ndim; d++) {
        tile->in[d] = spec->in[d];
        tile->out[d] = spec->out[d];
    }
    lk_status st = tile_fill(spec, tile);
    if (st != LK_OK) {
        lk_tile_free(tile);
        LK_TRY(st);
    }
    *out = tile;
    return LK_OK;
}

void lk_tile_free(lk_tile *tile)
{
    if (!tile)
        return;
    lk_fetch_free(tile->get_x);
    lk_fetch_free(tile->get_dy);
    lk_free((void *)(uintptr_t)tile->x_leaf);
    bounds_free(&tile->in_bounds);
    lk__tile_weights_free(tile->weights);
    lk_free(tile);
}
