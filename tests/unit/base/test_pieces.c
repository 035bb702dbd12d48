/* Ranges of pieces and the subtrees within them. */
#include "harness.h"

#include <lockstep/pieces.h>

TEST(ranges_share_evenly_and_leave_nothing_out)
{
    for (int64_t total = 0; total < 70; total++)
        for (int size = 1; size < 20; size++) {
            int64_t next = 0;
            for (int r = 0; r < size; r++) {
                lk_range range = lk_range_split(total, r, size);
                ASSERT_EQ(range.first, next);
                ASSERT_TRUE(range.n == total / size || range.n == total / size + 1);
                next += range.n;
            }
            ASSERT_EQ(next, total);
        }
    lk_range huge = lk_range_split(INT64_MAX, 999, 1000);
    ASSERT_TRUE(huge.first > 0 && huge.first + huge.n == INT64_MAX);
}

TEST(subtrees_cover_a_range)
{
    static const struct {
        int64_t total;
        lk_range range;
        int n;
        lk_range subtree[4];
    } cases[] = {{8, {0, 8}, 1, {{0, 8}}},
                 {8, {2, 3}, 2, {{2, 2}, {4, 1}}},
                 {8, {1, 6}, 4, {{1, 1}, {2, 2}, {4, 2}, {6, 1}}},
                 {7, {4, 3}, 1, {{4, 3}}}, /* (4+5)+6 is a subtree of that over 7 */
                 {5, {0, 5}, 1, {{0, 5}}},
                 {5, {3, 2}, 2, {{3, 1}, {4, 1}}},
                 {1, {0, 1}, 1, {{0, 1}}},
                 {8, {3, 0}, 0, {{0, 0}}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_range got[LK_MAX_SUBTREES];
        int n = lk_range_subtrees(cases[i].total, cases[i].range, got);
        ASSERT_EQ(n, cases[i].n);
        ASSERT_EQ(lk_range_subtrees(cases[i].total, cases[i].range, NULL), n);
        for (int k = 0; k < n; k++) {
            ASSERT_EQ(got[k].first, cases[i].subtree[k].first);
            ASSERT_EQ(got[k].n, cases[i].subtree[k].n);
        }
    }
}

TEST(the_worst_range_fits)
{
    lk_range got[LK_MAX_SUBTREES];
    int n = lk_range_subtrees(INT64_MAX, (lk_range){1, INT64_MAX - 2}, got);
    ASSERT_TRUE(n <= LK_MAX_SUBTREES);
    int64_t next = 1;
    for (int k = 0; k < n; k++) {
        ASSERT_EQ(got[k].first, next);
        next += got[k].n;
    }
    ASSERT_EQ(next, INT64_MAX - 1);
}

/* The largest range that `size` subtrees of the tree over [first, first + n) need at least. */
static int64_t least_largest(int64_t n, int size)
{
    if (size == 1 || n == 1)
        return n;
    int64_t half = 1, best = n;
    while (2 * half < n)
        half *= 2;
    for (int left = 1; left < size; left++) {
        int64_t a = least_largest(half, left), b = least_largest(n - half, size - left);
        int64_t largest = a > b ? a : b;
        best = largest < best ? largest : best;
    }
    return best;
}

TEST(each_can_have_one_subtree)
{
    for (int64_t total = 1; total < 36; total++)
        for (int size = 1; size < 8; size++) {
            int64_t first[9], largest = 0;
            int empty = 0;
            lk_subtree_partition(total, size, first);
            ASSERT_EQ(first[0], 0);
            ASSERT_EQ(first[size], total);
            for (int r = 0; r < size; r++) {
                lk_range range = {first[r], first[r + 1] - first[r]};
                ASSERT_TRUE(range.n >= 0 && lk_range_subtrees(total, range, NULL) == (range.n > 0));
                largest = range.n > largest ? range.n : largest;
                empty += range.n == 0;
            }
            ASSERT_EQ(largest, least_largest(total, size));
            ASSERT_EQ(empty, size > total ? size - total : 0);
        }
    int64_t many[1001];
    lk_subtree_partition(INT64_MAX, 1000, many);
    ASSERT_TRUE(many[999] > many[998] && many[1000] == INT64_MAX);
}

/* ---- tiles and blocks ---- */

TEST(tiles_cover_an_axis_and_begin_where_the_rule_says)
{
    for (int64_t grid = 1; grid <= 4; grid += 3)
        for (int64_t tiles = 1; tiles <= 9; tiles++)
            for (int64_t n = 0; n <= 200; n++) {
                int64_t next = 0, unit = tiles * grid;
                for (int64_t t = 0; t < tiles; t++) {
                    lk_range tile = lk_tile_range(n, t, tiles, grid);
                    int64_t rule = grid * ((t * n + unit - 1) / unit);
                    ASSERT_EQ(tile.first, next);
                    ASSERT_EQ(tile.first, rule < n ? rule : n);
                    ASSERT_TRUE(tile.n >= 0 && tile.n <= n / tiles + grid);
                    ASSERT_TRUE(tile.first % grid == 0 || tile.n == 0);
                    ASSERT_TRUE(tile.n > 0 || n < unit);
                    ASSERT_TRUE(grid > 1 || tile.n >= n / tiles);
                    next += tile.n;
                }
                ASSERT_EQ(next, n);
            }
    lk_range last = lk_tile_range(INT64_MAX / 2, 4095, 4096, 4);
    ASSERT_EQ(last.first % 4, 0);
    ASSERT_EQ(last.first + last.n, INT64_MAX / 2);
}

/* Ranks hold ranges of tiles, and what they hold of an axis has no gap. */
TEST(ranks_share_tiles_without_gaps)
{
    for (int64_t tiles = 1; tiles <= 9; tiles++)
        for (int64_t ranks = 1; ranks <= tiles; ranks++)
            for (int64_t n = 0; n <= 40; n++) {
                int64_t next = 0;
                for (int64_t r = 0; r < ranks; r++) {
                    lk_range held = lk_range_split(tiles, r, ranks);
                    ASSERT_TRUE(held.n >= 1);
                    for (int64_t t = held.first; t < held.first + held.n; t++) {
                        ASSERT_EQ(lk_tile_range(n, t, tiles, 1).first, next);
                        next += lk_tile_range(n, t, tiles, 1).n;
                    }
                }
                ASSERT_EQ(next, n);
            }
}

TEST(blocks_cover_an_axis_and_are_not_too_small)
{
    static const int64_t least[] = {0, 1, 3, 16, 32, 100};
    for (size_t k = 0; k < sizeof least / sizeof least[0]; k++)
        for (int64_t blocks = 1; blocks <= 9; blocks++)
            for (int64_t n = 0; n <= 300; n++) {
                int64_t size = lk_block_size(n, blocks, least[k]), next = 0;
                int64_t unit = least[k] < 1 ? 1 : least[k] < 16 ? least[k] : 16;
                ASSERT_TRUE(size >= 1 && size >= least[k] && size * blocks >= n);
                ASSERT_TRUE(size % unit == 0 || size == least[k]);
                ASSERT_TRUE(size == least[k] || size - unit < (n + blocks - 1) / blocks ||
                            size == 1);
                for (int64_t b = 0; b < blocks; b++) {
                    lk_range block = lk_block_range(n, size, (lk_range){b, 1});
                    ASSERT_EQ(block.first, next);
                    ASSERT_TRUE(block.n == size || block.first + block.n == n);
                    next += block.n;
                }
                ASSERT_EQ(next, n);
            }
    ASSERT_EQ(lk_block_size(40, 4, 32), 32);     /* two, the second of 8 */
    ASSERT_EQ(lk_block_size(100, 4, 32), 32);    /* 25 up to 32 */
    ASSERT_EQ(lk_block_size(1000, 4, 32), 256);  /* 250 up to a multiple of 16 */
    ASSERT_TRUE(lk_block_size(32, 4, 32) >= 32); /* one block: not cut */
}

/* The tree over `n` blocks of which the first `full` have something, as a number that tells trees
 * apart. */
static uint64_t tree_over(int64_t first, int64_t n, int64_t full)
{
    if (n == 1)
        return (uint64_t)(first + 1) * 0xd1342543de82ef95u;
    int64_t half = lk_tree_half(n);
    uint64_t lower = tree_over(first, half, full);
    if (first + half >= full)
        return lower;
    return lower * 0x9e3779b97f4a7c15u ^ tree_over(first + half, n - half, full);
}

TEST(empty_blocks_behind_the_last_change_no_tree)
{
    for (int64_t blocks = 1; blocks <= 70; blocks++)
        for (int64_t full = 1; full <= blocks; full++)
            ASSERT_TRUE(tree_over(0, blocks, full) == tree_over(0, full, full));
}

/* Each rank of a layout holds one subtree of the blocks, and of every axis what they have of it. */
TEST(ranks_hold_one_subtree_of_blocks_each)
{
    for (int blocks = 1; blocks <= 33; blocks++)
        for (int ranks = 1; ranks <= blocks; ranks++) {
            int64_t first[34];
            lk_subtree_partition(blocks, ranks, first);
            for (int64_t n = 1; n <= 1000; n += 37) {
                int64_t size = lk_block_size(n, blocks, 4), next = 0;
                for (int r = 0; r < ranks; r++) {
                    lk_range held = {first[r], first[r + 1] - first[r]};
                    lk_range part = lk_block_range(n, size, held);
                    ASSERT_EQ(lk_range_subtrees(blocks, held, NULL), 1);
                    ASSERT_EQ(part.first, next);
                    next += part.n;
                }
                ASSERT_EQ(next, n);
            }
        }
}

TEST(so_many_shards_are_the_least_for_all_parts)
{
    for (int64_t samples = 1; samples < 60; samples++)
        for (int64_t parts = 1; parts <= samples; parts++) {
            int64_t shards = 0, full = 0;
            while (full < parts) {
                int64_t size = (samples + shards) / (shards + 1);
                shards++;
                full = (samples + size - 1) / size;
            }
            ASSERT_EQ(lk_shards_for(samples, parts), shards);
        }
    ASSERT_EQ(lk_shards_for(6, 4), 6);
}
