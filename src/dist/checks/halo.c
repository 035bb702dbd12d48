/* Samples of halo, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/tiles.h"

static lk_status tiles(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_grid grid;
    lk_halo halos[2];
    LK_TRY(tile_grid(s, comm, &grid));
    tile_halos(s, grid.at[1], halos);
    LK_TRY(lk_dist_halo(comm, &grid, in[0], halos, 2, "check", out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_halo = {
    .name = "halo",
    .summary = "y = x with rows of its neighbours; dx = own dy plus what comes back",
    .samples = (const lk_dist_sample[]){
        TILES_SAMPLE("periodic", TILES_PERIODIC, shape_tile, tiles, true),
        TILES_SAMPLE("with borders", TILES_BORDERS, shape_tile, tiles, true),
        TILES_SAMPLE("zeros at borders", TILES_ZEROS, shape_tile, tiles, true),
        {0}}};
