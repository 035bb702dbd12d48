/* The tiling of a plan: tiles and ranks along each axis, and whether these fit each other and the samples.
 * domains.c calls it before it looks at layers; it is arithmetic. */
#include "dist/common/tiles.h"
#include "nn/model.h"
#include "parallel/plan/domains.h"

#include <lockstep/extra/checked.h>

#include <stdio.h>

/* "2x2". */
static const char *grid_text(int ndim, const int64_t *n, char out[72])
{
    int at = 0;
    for (int d = 0; d < ndim; d++)
        at += snprintf(out + at, 72 - (size_t)at, "%s%lld", d ? "x" : "", (long long)n[d]);
    return out;
}

/* There are at least as many tiles as ranks along each axis. */
static lk_status grid_check(const lk_grid *grid, const int64_t *tiles)
{
    int64_t ranks[LK_TILE_AXES] = {0}, want[LK_TILE_AXES] = {0};
    char is[72], has[72], line[72];
    bool fits = true;
    for (int d = 0; d < grid->ndim; d++) {
        ranks[d] = grid->dim[d];
        want[d] = tiles[d] > ranks[d] ? tiles[d] : ranks[d];
        fits = fits && tiles[d] >= ranks[d];
    }
    LK_CHECK(fits, LK_EINVAL,
             "spatial %s is more than the tiles of pieces, %s; the line `pieces: {tiles: %s}` "
             "allows it, as another run with other bits",
             grid_text(grid->ndim, ranks, is), grid_text(grid->ndim, tiles, has),
             grid_text(grid->ndim, want, line));
    return LK_OK;
}

/* A sample has the axes that are cut. */
static lk_status axes_check(const lk_grid *grid, const int64_t *tiles, lk_shape in)
{
    int64_t ranks[LK_TILE_AXES] = {0}, want[LK_TILE_AXES] = {0};
    char is[72], fit[72], line[72], pieces[72];
    int axes = in.ndim - 1;
    for (int d = 0; d < grid->ndim; d++) {
        ranks[d] = grid->dim[d];
        want[d] = tiles[d] > ranks[d] ? tiles[d] : ranks[d];
    }
    LK_CHECK(axes > 0, LK_EINVAL,
             "parallel.spatial is %s, but a sample %s has nothing before its channels to be cut: "
             "leave it out (parallel.data shares the samples out), or give data.shape axes",
             grid_text(grid->ndim, ranks, is), lk_shape_text(in).s);
    LK_CHECK(axes >= grid->ndim, LK_EINVAL,
             "parallel.spatial %s and pieces.tiles %s cut %d axes, but a sample %s has %d before "
             "its channels: take `parallel: {spatial: %s}` and `pieces: {tiles: %s}`",
             grid_text(grid->ndim, ranks, is), grid_text(grid->ndim, tiles, pieces), grid->ndim,
             lk_shape_text(in).s, axes, grid_text(axes, ranks, fit), grid_text(axes, want, line));
    return LK_OK;
}

/* Tiles may have no position, but sums are kept of each: more of them than this take memory for nothing. */
enum { EMPTY_TILES = 4096 };

static lk_status tiles_check(const lk_grid *grid, const int64_t *tiles, lk_shape in)
{
    char is[72];
    int64_t all = 1, elements;
    LK_TRY(lk_shape_count(in, &elements));
    for (int d = 0; d < grid->ndim; d++)
        LK_TRY(lk_mul_i64(all, tiles[d], &all));
    LK_CHECK(all <= elements || all <= EMPTY_TILES, LK_EINVAL,
             "pieces.tiles is %s, %lld tiles, and a sample %s has %lld elements: take at most as "
             "many along an axis as it has positions",
             grid_text(grid->ndim, tiles, is), (long long)all, lk_shape_text(in).s,
             (long long)elements);
    return LK_OK;
}

lk_status lk__plan_tiling(lk_plan *p, const lk_mesh *mesh, const lk__net *net)
{
    lk_grid grid = {.ndim = 1};
    lk_pieces *cut = &p->spec.pieces;
    for (int d = 0; d < LK_TILE_AXES; d++) {
        grid.dim[d] = d < mesh->space.ndim ? mesh->space.dim[d] : 1;
        grid.at[d] = d < mesh->space.ndim ? mesh->space.at[d] : 0;
        cut->tile[d] = cut->tile[d] > 1 ? cut->tile[d] : 1;
        if (p->spec.fast) /* what a rank has is one piece */
            cut->tile[d] = grid.dim[d];
        if (cut->tile[d] > 1 || grid.dim[d] > 1)
            grid.ndim = d + 1;
    }
    if (mesh->n[LK_AXIS_SPACE] > 1)
        LK_TRY(axes_check(&grid, cut->tile, net->spec.in.shape));
    LK_TRY(grid_check(&grid, cut->tile));
    LK_TRY(tiles_check(&grid, cut->tile, net->spec.in.shape));
    return LK_TRACE(lk__tiling_new(mesh->along[LK_AXIS_SPACE], mesh->space_along, &grid, cut->tile,
                                   lk__net_tile_step(net), &p->tiling));
}
