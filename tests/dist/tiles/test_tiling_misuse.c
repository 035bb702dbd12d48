/* Tilings and layers that are given wrong, on one rank or on all: refused at once, and told to everybody. */
#include "ranks.h"

#include <lockstep/tiles.h>

#include <time.h>

RANKS_TEST(what_one_rank_was_given_wrong_all_hear)
{
    int size = lk_comm_size(comm);
    bool last = lk_comm_rank(comm) == size - 1;
    int64_t tiles[] = {size}, few[] = {size - 1};
    lk_grid grid;
    lk_tiling *t = NULL;
    ASSERT_OK(lk_grid_make(comm, 1, &size, NULL, &grid));
    time_t begin = time(NULL);
    ASSERT_FAILS(lk_tiling_new(comm, last ? NULL : &grid, tiles, 0, &t), LK_EINVAL, "grid is NULL");
    ASSERT_TRUE(!t);
    ASSERT_FAILS(lk_tiling_new(comm, &grid, last ? NULL : tiles, 0, &t), LK_EINVAL,
                 "tiles is NULL");
    ASSERT_FAILS(lk_tiling_new(comm, &grid, tiles, 0, last ? NULL : &t), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_tiling_new(comm, &grid, last ? few : tiles, 0, &t), LK_EINVAL,
                 "there must be at least as many tiles");
    ASSERT_TRUE(time(NULL) - begin < 5); /* nobody has waited for a deadline */
    ASSERT_OK(lk_tiling_new(comm, &grid, tiles, 0, &t));
    lk_tiling_free(t);
}

RANKS_TEST(layers_are_checked_before_boxes_are_made)
{
    const int64_t tiles[] = {3}, falls[] = {0, 5, 4, 8};
    const lk_tile_spec good = {
        .kind = LK_TILE_CONV, .window = {1, .kernel = {3}, .pad_lo = {1}}, .in = {8}, .out = {8}};
    lk_tile_spec s[2] = {good, good}, before[2];
    lk_tiling *t;
    (void)comm;
    ASSERT_OK(lk_tiling_new(NULL, &(lk_grid){1, {3}, {false}, {1}}, tiles, 0, &t));
    ASSERT_OK(lk_tiling_hold(t, NULL, 0));
    ASSERT_FAILS(lk_tiling_hold(NULL, s, 2), LK_EINVAL, "2 layers of no tiling");
    ASSERT_FAILS(lk_tiling_hold(t, NULL, 2), LK_EINVAL, "2 layers, which are NULL");
    ASSERT_FAILS(lk_tiling_hold(t, s, -1), LK_EINVAL, "-1 layers");
    s[1].window.ndim = 4;
    memcpy(before, s, sizeof s);
    ASSERT_FAILS(lk_tiling_hold(t, s, 2), LK_EINVAL, "layer 1: a layer of 4 spatial axes");
    ASSERT_EQ(memcmp(before, s, sizeof s), 0);
    s[1] = good;
    s[1].kind = (lk_tile_kind)99;
    ASSERT_FAILS(lk_tiling_hold(t, s, 2), LK_EINVAL, "layer 1: a layer of the kind 99");
    s[1] = good;
    s[1].in_bounds.axis[0] = falls;
    ASSERT_FAILS(lk_tiling_hold(t, s, 2), LK_EINVAL, "layer 1: bounds of axis 0 of the input");
    s[1] = good;
    s[1].x_box = (lk_box){2, {0}, {8, 1}};
    ASSERT_FAILS(lk_tiling_hold(t, s, 2), LK_EINVAL, "layer 1: the box of x, of 2 axes");
    s[1] = good;
    s[1].y_box = (lk_box){1, {4}, {8}};
    ASSERT_FAILS(lk_tiling_hold(t, s, 2), LK_EINVAL, "layer 1: the box of y, of 1 axes, reaches");
    s[1] = good;
    ASSERT_OK(lk_tiling_hold(t, s, 2));
    ASSERT_TRUE(s[1].x_box.ndim == 1 && lk_box_is_equal(&s[0].x_box, &s[1].x_box));
    lk_tiling_free(t);
}
