/* Convolutions on tiles when memory runs out: at every allocation in turn, of tiling, tile, forward and
 * backward, on one rank that has all tiles.
 */
#include "faults.h"

#include <lockstep/lockstep.h>

enum { SIZE = 6, CHANNELS = 2, TAPS = 3 };

static double x[SIZE * SIZE * CHANNELS], dx[SIZE * SIZE * CHANNELS];
static double w[TAPS * TAPS * CHANNELS * CHANNELS], dw[TAPS * TAPS * CHANNELS * CHANNELS];
static double b[CHANNELS], db[CHANNELS];

static const lk_conv_attr attr = {.window = {.pad_lo = {1, 1}, .pad_hi = {1, 1}}};

static lk_status pass(lk_tape *tape, const lk_tile *tile, bool back)
{
    lk_var vx, vw, vb, y, sum;
    LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(1, SIZE, SIZE, CHANNELS), x, dx, &vx));
    LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(TAPS, TAPS, CHANNELS, CHANNELS), w, dw, &vw));
    LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(CHANNELS), b, db, &vb));
    if (back)
        LK_TRY(lk_dist_tile_conv_transpose(tile, vx, vw, vb, &attr, "layer", &y));
    else
        LK_TRY(lk_dist_tile_conv(tile, vx, vw, vb, &attr, LK_ACT_RELU, "layer", &y));
    LK_TRY(lk_sum(y, NULL, &sum));
    return LK_TRACE(lk_backward(tape, &(lk_seed){.of = sum}, 1, 0));
}

static lk_status layer_run(bool back)
{
    const lk_grid grid = {.ndim = 2, .dim = {1, 1}};
    const lk_tile_spec spec = {
        .kind = back ? LK_TILE_CONV_TRANSPOSE : LK_TILE_CONV,
        .window = {.ndim = 2, .kernel = {TAPS, TAPS}, .pad_lo = {1, 1}, .pad_hi = {1, 1}},
        .in = {SIZE, SIZE},
        .out = {SIZE, SIZE}};
    lk_tiling *tiling = NULL;
    lk_tile *tile = NULL;
    lk_tape *tape = NULL;
    lk_status st = lk_tiling_new(NULL, &grid, (const int64_t[]){2, 2}, 0, &tiling);
    if (st == LK_OK)
        st = lk_tile_new(tiling, &spec, &tile);
    if (st == LK_OK)
        st = lk_tape_new(&tape);
    if (st == LK_OK)
        st = pass(tape, tile, back);
    lk_tape_free(tape);
    lk_tile_free(tile);
    lk_tiling_free(tiling);
    return st;
}

static lk_status ahead(void)
{
    return layer_run(false);
}

static lk_status transposed(void)
{
    return layer_run(true);
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(ahead) > 10);
    ASSERT_TRUE(test_every_allocation_fails(transposed) > 10);
}
