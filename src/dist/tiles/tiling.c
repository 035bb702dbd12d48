/* lk_tiling: which tiles each rank has, and the boxes of values that follow.  A trainer makes one from its
 * mesh, a host from its own grid, on each rank; the ops on tiles read it, on the communicator's thread.
 */
#include "base/failure.h"
#include "dist/common/tiles.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

/* ---- making one ---- */

static lk_status tiling_check(const lk_comm *comm, const lk_grid *grid, const int64_t *tiles,
                              int64_t step)
{
    int64_t ranks = 1, rank = 0, all = 1;
    LK_CHECK(step >= 0 && step <= (int64_t)1 << 30, LK_EINVAL,
             "cuts at multiples of %lld: it can be 0 to 2^30", (long long)step);
    LK_CHECK(grid->ndim >= 1 && grid->ndim <= LK_TILE_AXES, LK_EINVAL,
             "tiles along %d axes: there can be 1 to %d", grid->ndim, LK_TILE_AXES);
    for (int d = 0; d < grid->ndim; d++) {
        LK_CHECK(grid->dim[d] >= 1 && grid->at[d] >= 0 && grid->at[d] < grid->dim[d], LK_EINVAL,
                 "rank %d of %d along axis %d", grid->at[d], grid->dim[d], d);
        LK_CHECK(tiles[d] >= grid->dim[d], LK_EINVAL,
                 "axis %d has %lld tile%s for %d ranks: there must be at least as many tiles", d,
                 (long long)tiles[d], tiles[d] == 1 ? "" : "s", grid->dim[d]);
        LK_TRY(lk_mul_i64(ranks, grid->dim[d], &ranks));
        LK_CHECK(lk_mul_i64(all, tiles[d], &all) == LK_OK && all <= INT32_MAX, LK_EINVAL,
                 "axis %d has %lld tiles: there can be 2^31 - 1 in all", d, (long long)tiles[d]);
        rank = rank * grid->dim[d] + grid->at[d];
    }
    LK_CHECK(!comm || ranks == lk_comm_size(comm), LK_EINVAL,
             "a grid of %lld ranks, where the communicator has %d", (long long)ranks,
             lk_comm_size(comm));
    LK_CHECK(!comm || rank == lk_comm_rank(comm), LK_EINVAL,
             "rank %lld of the grid is rank %d of the communicator: they must have one order",
             (long long)rank, lk_comm_rank(comm));
    return LK_OK;
}

static void tiling_fill(lk_tiling *t, const lk_grid *grid, const int64_t *tiles, int64_t step)
{
    t->ndim = grid->ndim;
    t->step = step > 1 ? step : 1;
    t->grid = *grid;
    t->size = 1;
    for (int d = 0; d < LK_TILE_AXES; d++) {
        bool cut = d < grid->ndim;
        t->tiles[d] = cut ? tiles[d] : 1;
        t->held[d] = cut ? lk_range_split(tiles[d], grid->at[d], grid->dim[d]) : (lk_range){0, 1};
        if (cut) {
            t->rank = t->rank * grid->dim[d] + grid->at[d];
            t->size *= grid->dim[d];
        }
    }
}

static lk_status tiling_open(lk_tiling *t)
{
    for (int d = 0; d < t->ndim; d++) {
        bool keep[LK_MAX_GRID] = {false};
        keep[d] = true;
        if (t->grid.dim[d] > 1)
            LK_TRY(lk_grid_split(t->comm, &t->grid, keep, &t->along[d]));
    }
    return LK_OK;
}

lk_status lk__tiling_new(lk_comm *comm, lk_comm *const *along, const lk_grid *grid,
                         const int64_t *tiles, int64_t step, lk_tiling **out)
{
    *out = NULL;
    LK_TRY(tiling_check(comm, grid, tiles, step));
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
    tiling_fill(*out, grid, tiles, step);
    (*out)->comm = (*out)->size > 1 ? comm : NULL;
    (*out)->borrows = true;
    for (int d = 0; d < grid->ndim; d++)
        (*out)->along[d] = along[d];
    return LK_OK;
}

static lk_status given_check(const lk_grid *grid, const int64_t *tiles, lk_tiling **out)
{
    LK_CHECK(grid && tiles && out, LK_EINVAL, "%s is NULL",
             !grid    ? "grid"
             : !tiles ? "tiles"
                      : "out");
    return LK_OK;
}

lk_status lk_tiling_new(lk_comm *comm, const lk_grid *grid, const int64_t *tiles, int64_t step,
                        lk_tiling **out)
{
    lk_tiling *t = NULL;
    lk_status st = given_check(grid, tiles, out);
    if (out)
        *out = NULL;
    if (st == LK_OK)
        st = tiling_check(comm, grid, tiles, step);
    if (st == LK_OK)
        st = lk_alloc_zero(&t, 1, sizeof *t);
    st = lk_agree(comm, st);
    if (st == LK_OK && t) { /* and all that was given, on every rank */
        tiling_fill(t, grid, tiles, step);
        t->comm = t->size > 1 ? comm : NULL;
        if (t->comm)
            st = tiling_open(t);
    }
    if (st != LK_OK || !out) {
        lk_tiling_free(t);
        return st;
    }
    *out = t;
    return LK_OK;
}

void lk_tiling_free(lk_tiling *t)
{
    if (!t)
        return;
    for (int d = 0; d < LK_TILE_AXES && !t->borrows; d++)
        lk_comm_close(t->along[d]);
    lk_free(t);
}

int64_t lk_tiling_leaves(const lk_tiling *t)
{
    return t->held[0].n * t->held[1].n * t->held[2].n;
}

/* ---- boxes ---- */

bool lk__box_is_empty(const lk_box *box)
{
    return lk_box_count(box) == 0;
}

/* Empty boxes are all alike: they begin at 0. */
static lk_box box_or_none(lk_box box)
{
    return lk__box_is_empty(&box) ? (lk_box){.ndim = box.ndim} : box;
}

/* Tiles `range` of axis d, which has n positions. */
static lk_range axis_tiles(const lk_tiling *t, int d, int64_t n, lk_range range,
                           const int64_t *bounds)
{
    if (d >= t->ndim)
        return (lk_range){0, n};
    if (bounds) {
        int64_t first = bounds[range.first];
        return (lk_range){first, bounds[range.first + range.n] - first};
    }
    int64_t first = lk_tile_range(n, range.first, t->tiles[d], t->step).first;
    lk_range last = lk_tile_range(n, range.first + range.n - 1, t->tiles[d], t->step);
    return (lk_range){first, last.first + last.n - first};
}

static lk_box tiles_box(const lk_tiling *t, const lk_range tiles[LK_TILE_AXES], int ndim,
                        const int64_t *n, const lk_tile_bounds *bounds)
{
    lk_box box = {.ndim = ndim};
    for (int d = 0; d < ndim && d < LK_TILE_AXES; d++) {
        lk_range r = axis_tiles(t, d, n[d], tiles[d], bounds ? bounds->axis[d] : NULL);
        box.first[d] = r.first;
        box.n[d] = r.n;
    }
    return box_or_none(box);
}

lk_box lk_tiling_box(const lk_tiling *t, int rank, int ndim, const int64_t *n,
                     const lk_tile_bounds *bounds)
{
    lk_range tiles[LK_TILE_AXES] = {{0, 1}, {0, 1}, {0, 1}};
    for (int d = t->ndim - 1; d >= 0; d--) {
        tiles[d] = lk_range_split(t->tiles[d], rank % t->grid.dim[d], t->grid.dim[d]);
        rank /= t->grid.dim[d];
    }
    return tiles_box(t, tiles, ndim, n, bounds);
}

lk_box lk__tiling_leaf(const lk_tiling *t, int64_t leaf, int ndim, const int64_t *n,
                       const lk_tile_bounds *bounds)
{
    lk_range tile[LK_TILE_AXES];
    for (int d = LK_TILE_AXES - 1; d >= 0; d--) {
        tile[d] = (lk_range){t->held[d].first + leaf % t->held[d].n, 1};
        leaf /= t->held[d].n;
    }
    return tiles_box(t, tile, ndim, n, bounds);
}

lk_box lk__box_hull(const lk_box *a, const lk_box *b)
{
    lk_box hull = *a;
    if (lk__box_is_empty(a) || lk__box_is_empty(b))
        return box_or_none(lk__box_is_empty(a) ? *b : *a);
    for (int d = 0; d < a->ndim; d++) {
        int64_t end = a->first[d] + a->n[d], other = b->first[d] + b->n[d];
        hull.first[d] = a->first[d] < b->first[d] ? a->first[d] : b->first[d];
        hull.n[d] = (end > other ? end : other) - hull.first[d];
    }
    return hull;
}

bool lk__box_has(const lk_box *box, const lk_box *part)
{
    lk_box common = lk_box_intersect(box, part);
    return lk__box_is_empty(part) || lk_box_is_equal(&common, part);
}

/* ---- what layers read and write ---- */

/* What the window reads of `in` for the outputs `box`, or which outputs read the inputs `box`. */
static lk_box through(const lk_window *w, const lk_box *box, const int64_t *sizes, bool needs)
{
    lk_box got = {.ndim = w->ndim};
    for (int d = 0; d < w->ndim; d++) {
        lk_range range = {box->first[d], box->n[d]};
        range = needs ? lk_window_needs(w, d, range, sizes[d])
                      : lk_window_feeds(w, d, range, sizes[d]);
        got.first[d] = range.first;
        got.n[d] = range.n;
    }
    return box_or_none(got);
}

lk__tile_reach lk__tile_reach_of(const lk_tiling *t, int rank, const lk_tile_spec *s)
{
    int ndim = s->window.ndim;
    lk_box x = lk_tiling_box(t, rank, ndim, s->in, &s->in_bounds);
    lk_box y = lk_tiling_box(t, rank, ndim, s->out, &s->out_bounds);
    lk__tile_reach r = {.x_tile = x, .y_tile = y, .x_reads = x, .y_makes = y, .dy_reads = y};
    if (s->kind == LK_TILE_CONV || s->kind == LK_TILE_LOCAL_CONV) {
        r.x_reads = through(&s->window, &y, s->in, true);
        r.dy_reads = through(&s->window, &x, s->out, false);
    } else if (s->kind == LK_TILE_CONV_TRANSPOSE || s->kind == LK_TILE_LOCAL_CONV_TRANSPOSE) {
        r.x_reads = through(&s->window, &y, s->in, false);
        r.dy_reads = through(&s->window, &x, s->out, true);
    } else if (s->kind == LK_TILE_POOL) {
        r.dy_reads = through(&s->window, &x, s->out, false);
        r.y_makes = lk__box_hull(&r.dy_reads, &y);
        r.x_reads = through(&s->window, &r.y_makes, s->in, true);
    } else if (s->kind == LK_TILE_LCN) { /* windows of windows, forward and backward */
        lk_box once = through(&s->window, &x, s->out, false);
        r.dy_reads = through(&s->window, &once, s->out, false);
        r.y_makes = lk__box_hull(&r.dy_reads, &y);
        once = through(&s->window, &r.y_makes, s->in, true);
        r.x_reads = through(&s->window, &once, s->in, true);
    }
    return r;
}

static void box_widen(lk_box *box, const lk_box *by)
{
    *box = box->ndim == 0 ? *by : lk__box_hull(box, by);
}

/* Whether bounds are the same, be they the same arrays or not. */
static bool bounds_are_like(const lk_tiling *t, const lk_tile_bounds *a, const lk_tile_bounds *b)
{
    bool like = true;
    for (int d = 0; d < t->ndim && like; d++) {
        const int64_t *p = a->axis[d], *q = b->axis[d];
        like = p == q || (p && q && memcmp(p, q, (size_t)(t->tiles[d] + 1) * sizeof *p) == 0);
    }
    return like;
}

/* Whether two values are cut alike: then they have one box. */
static bool is_like(const lk_tiling *t, const lk_tile_spec *a, bool a_out, const lk_tile_spec *b,
                    bool b_out)
{
    const int64_t *n = a_out ? a->out : a->in, *m = b_out ? b->out : b->in;
    const lk_tile_bounds *p = a_out ? &a->out_bounds : &a->in_bounds,
                         *q = b_out ? &b->out_bounds : &b->in_bounds;
    return a->window.ndim == b->window.ndim &&
           memcmp(n, m, (size_t)a->window.ndim * sizeof *n) == 0 && bounds_are_like(t, p, q);
}

/* The box of a value that a layer gives is one of that value. */
static lk_status given_box_check(const char *what, const lk_box *box, int ndim, const int64_t *n)
{
    LK_CHECK(box->ndim == 0 || (box->ndim == ndim && lk_box_is_within(box, n)), LK_EINVAL,
             "the box of %s, of %d axes, reaches out of a value of %d", what, box->ndim, ndim);
    return LK_OK;
}

static lk_status layer_check(const lk_tiling *t, const lk_tile_spec *s)
{
    LK_TRY(lk__tile_spec_check(t, s));
    LK_TRY(given_box_check("x", &s->x_box, s->window.ndim, s->in));
    return LK_TRACE(given_box_check("y", &s->y_box, s->window.ndim, s->out));
}

lk_status lk_tiling_hold(const lk_tiling *t, lk_tile_spec *layers, int64_t n)
{
    LK_CHECK(t && n >= 0 && (layers || n == 0), LK_EINVAL, "%lld layers%s%s", (long long)n,
             t ? "" : " of no tiling", layers || n == 0 ? "" : ", which are NULL");
    for (int64_t i = 0; i < n; i++) {
        lk_status st = layer_check(t, &layers[i]);
        if (st != LK_OK)
            lk__error_prefix("layer %lld: ", (long long)i);
        LK_TRY(st);
    }
    for (int64_t i = 0; i < n; i++) {
        lk__tile_reach r = lk__tile_reach_of(t, t->rank, &layers[i]);
        box_widen(&layers[i].x_box, &r.x_tile);
        box_widen(&layers[i].x_box, &r.x_reads);
        box_widen(&layers[i].y_box, &r.y_tile);
        box_widen(&layers[i].y_box, &r.y_makes);
        box_widen(&layers[i].y_box, &r.dy_reads);
    }
    for (int64_t i = 0; i < 2 * n; i++) /* to those behind it, then back from the last of a kind */
        for (int64_t k = i + 1; k < 2 * n; k++)
            if (is_like(t, &layers[i / 2], i % 2, &layers[k / 2], k % 2)) {
                lk_box *a = i % 2 ? &layers[i / 2].y_box : &layers[i / 2].x_box;
                lk_box *b = k % 2 ? &layers[k / 2].y_box : &layers[k / 2].x_box;
                *a = *b = lk__box_hull(a, b);
            }
    return LK_OK;
}
