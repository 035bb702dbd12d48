/* Ranges of pieces and the subtrees within them. */
#include "harness.h"

#include <lockstep/pieces.h>

static void ranges_share_evenly_and_leave_nothing_out(void)
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

static void subtrees_cover_a_range(void)
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

static void the_worst_range_fits(void)
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

static void each_can_have_one_subtree(void)
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

TEST_MAIN(TEST(ranges_share_evenly_and_leave_nothing_out), TEST(subtrees_cover_a_range),
          TEST(the_worst_range_fits), TEST(each_can_have_one_subtree))
