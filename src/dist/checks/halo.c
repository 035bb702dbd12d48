/* Samples of halo, on which lk_gradcheck_dist() compares its backward with differences. */
#include "dist/checks/shapes.h"

/* The ranks as rows and columns: two rows if that is possible. */
static int rows_of(int size)
{
    return size % 2 == 0 && size > 2 ? 2 : 1;
}

/* Tiles differ: axis 0 is cut along the columns of the grid, axis 2 along its rows. */
static lk_shape shape_tile(const lk_dist_sample *s, int rank, int size, int i)
{
    int columns = size / rows_of(size);
    (void)s;
    (void)i;
    return LK_SHAPE(3 - rank % columns % 2, 1, 2 + rank / columns % 2);
}

/* Variants: periodic; nothing beyond the borders; zeros there. */
static lk_status tiles(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    lk_grid grid;
    int size = lk_comm_size(comm), rows = rows_of(size);
    const int dim[2] = {rows, size / rows};
    const bool periodic[2] = {s->variant == 0, s->variant == 0};
    LK_TRY(lk_grid_make(comm, 2, dim, periodic, &grid));
    const lk_halo halos[2] = {
        {.axis = 2, .grid_axis = 0, .low = 1, .high = 2, .zeros = s->variant == 2},
        {.axis = 0,
         .grid_axis = 1,
         .low = 1 + grid.at[1] % 2,
         .high = 1,
         .zeros = s->variant == 2}};
    LK_TRY(lk_dist_halo(comm, &grid, in[0], halos, 2, "check", out));
    return LK_OK;
}

#define SAMPLE(text, border)                                                      \
    {                                                                             \
        .name = (text), .n_in = 1, .n_out = 1, .shape = shape_tile, .run = tiles, \
        .variant = (border), .is_linear = true                                    \
    }

const lk_dist_check lk__dist_check_halo = {
    .name = "halo",
    .summary = "y = x with rows of its neighbours; dx = own dy plus what comes back",
    .samples = (const lk_dist_sample[]){
        SAMPLE("periodic", 0), SAMPLE("with borders", 1), SAMPLE("zeros at borders", 2), {0}}};
