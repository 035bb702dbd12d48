/* Tiles on a grid of all ranks, with halos: the geometry of the samples of halo and halo_add. */
#ifndef LK_DIST_COMMON_SAMPLE_TILES_H
#define LK_DIST_COMMON_SAMPLE_TILES_H

#include "dist/common/sample_shapes.h"

/* Variants of samples. */
enum { TILES_PERIODIC, TILES_BORDERS, TILES_ZEROS };

/* The ranks as rows and columns: two rows if that is possible. */
static inline int tile_rows(int size)
{
    return size % 2 == 0 && size > 2 ? 2 : 1;
}

static inline LK_NODISCARD lk_status tile_grid(const lk_dist_sample *s, lk_comm *comm, lk_grid *out)
{
    int size = lk_comm_size(comm), rows = tile_rows(size);
    const int dim[2] = {rows, size / rows};
    const bool periodic[2] = {s->variant == TILES_PERIODIC, s->variant == TILES_PERIODIC};
    return LK_TRACE(lk_grid_make(comm, 2, dim, periodic, out));
}

/* The halos of the tile in this column. */
static inline void tile_halos(const lk_dist_sample *s, int column, lk_halo out[2])
{
    bool zeros = s->variant == TILES_ZEROS;
    out[0] = (lk_halo){.axis = 2, .grid_axis = 0, .low = 1, .high = 2, .zeros = zeros};
    out[1] = (lk_halo){.axis = 0, .grid_axis = 1, .low = 1 + column % 2, .high = 1, .zeros = zeros};
}

/* Tiles differ: axis 0 is cut along the columns of the grid, axis 2 along its rows. */
static inline lk_shape shape_tile(const lk_dist_sample *s, int rank, int size, int i)
{
    int columns = size / tile_rows(size);
    (void)s;
    (void)i;
    return LK_SHAPE(3 - rank % columns % 2, 1, 2 + rank / columns % 2);
}

/* The same with halos. */
static inline lk_shape shape_haloed(const lk_dist_sample *s, int rank, int size, int i)
{
    int dim[2] = {tile_rows(size), size / tile_rows(size)};
    int at[2] = {rank / dim[1], rank % dim[1]};
    lk_shape shape = shape_tile(s, rank, size, i);
    lk_halo halos[2];
    tile_halos(s, at[1], halos);
    for (int k = 0; k < 2; k++) {
        bool all = s->variant != TILES_BORDERS;
        shape.dim[halos[k].axis] += (all || at[k] > 0 ? halos[k].low : 0) +
                                    (all || at[k] + 1 < dim[k] ? halos[k].high : 0);
    }
    return shape;
}

#endif /* LK_DIST_COMMON_SAMPLE_TILES_H */
