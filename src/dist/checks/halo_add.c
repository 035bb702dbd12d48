/* Samples of halo_add, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/tiles.h"

static lk_status sums(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_grid grid;
    lk_halo halos[2];
    LK_TRY(tile_grid(s, comm, &grid));
    tile_halos(s, grid.at[1], halos);
    LK_TRY(lk_dist_halo_add(comm, &grid, in[0], halos, 2, "check", out));
    return LK_OK;
}

/* There and back, with squares between: both, and second derivatives that are not 0. */
static lk_status round_trip(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_grid grid;
    lk_halo halos[2];
    lk_var y;
    LK_TRY(tile_grid(s, comm, &grid));
    tile_halos(s, grid.at[1], halos);
    LK_TRY(lk_dist_halo(comm, &grid, in[0], halos, 2, "there", &y));
    LK_TRY(lk_square(y, &y));
    LK_TRY(lk_dist_halo_add(comm, &grid, y, halos, 2, "back", out));
    return LK_OK;
}

const lk_dist_check lk__dist_check_halo_add = {
    .name = "halo_add",
    .summary = "y = x without halos, which are added to their owners; dx = dy with halos",
    .samples = (const lk_dist_sample[]){
        TILES_SAMPLE("periodic", TILES_PERIODIC, shape_haloed, sums, true),
        TILES_SAMPLE("with borders", TILES_BORDERS, shape_haloed, sums, true),
        TILES_SAMPLE("zeros at borders", TILES_ZEROS, shape_haloed, sums, true),
        TILES_SAMPLE("of a halo", TILES_PERIODIC, shape_tile, round_trip, false),
        {0}}};
