/* Runs of pieces and the nodes of the tree within them. */
#include "harness.h"

#include <lockstep/coll.h>

static void runs_share_evenly_and_leave_nothing_out(void)
{
    for (int64_t total = 0; total < 70; total++)
        for (int size = 1; size < 20; size++) {
            int64_t next = 0;
            for (int r = 0; r < size; r++) {
                lk_run run = lk_run_of(total, r, size);
                ASSERT_EQ(run.first, next);
                ASSERT_TRUE(run.n == total / size || run.n == total / size + 1);
                next += run.n;
            }
            ASSERT_EQ(next, total);
        }
    lk_run huge = lk_run_of(INT64_MAX, 999, 1000);
    ASSERT_TRUE(huge.first > 0 && huge.first + huge.n == INT64_MAX);
}

static void nodes_cover_a_run_with_whole_subtrees(void)
{
    static const struct {
        lk_run run;
        int n;
        lk_node node[4];
    } cases[] = {{{8, 0, 8}, 1, {{0, 8}}},
                 {{8, 2, 3}, 2, {{2, 2}, {4, 1}}},
                 {{8, 1, 6}, 4, {{1, 1}, {2, 2}, {4, 2}, {6, 1}}},
                 {{7, 4, 3}, 1, {{4, 3}}}, /* (4+5)+6 is a node of the tree over 7 */
                 {{5, 0, 5}, 1, {{0, 5}}},
                 {{5, 3, 2}, 2, {{3, 1}, {4, 1}}},
                 {{1, 0, 1}, 1, {{0, 1}}},
                 {{8, 3, 0}, 0, {{0, 0}}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_node got[LK_MAX_NODES];
        int n = lk_run_nodes(cases[i].run, got);
        ASSERT_EQ(n, cases[i].n);
        ASSERT_EQ(lk_run_nodes(cases[i].run, NULL), n);
        for (int k = 0; k < n; k++) {
            ASSERT_EQ(got[k].first, cases[i].node[k].first);
            ASSERT_EQ(got[k].n, cases[i].node[k].n);
        }
    }
}

static void the_worst_run_fits(void)
{
    lk_node got[LK_MAX_NODES];
    int n = lk_run_nodes((lk_run){INT64_MAX, 1, INT64_MAX - 2}, got);
    ASSERT_TRUE(n <= LK_MAX_NODES);
    int64_t next = 1;
    for (int k = 0; k < n; k++) {
        ASSERT_EQ(got[k].first, next);
        next += got[k].n;
    }
    ASSERT_EQ(next, INT64_MAX - 1);
}

/* The largest run that `size` nodes of the tree over [first, first + n) need at least. */
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

static void each_rank_can_have_one_node(void)
{
    for (int64_t total = 1; total < 36; total++)
        for (int size = 1; size < 8; size++) {
            int64_t first[9], largest = 0;
            int empty = 0;
            lk_run_one_node(total, size, first);
            ASSERT_EQ(first[0], 0);
            ASSERT_EQ(first[size], total);
            for (int r = 0; r < size; r++) {
                lk_run run = {total, first[r], first[r + 1] - first[r]};
                ASSERT_TRUE(run.n >= 0 && lk_run_nodes(run, NULL) == (run.n > 0));
                largest = run.n > largest ? run.n : largest;
                empty += run.n == 0;
            }
            ASSERT_EQ(largest, least_largest(total, size));
            ASSERT_EQ(empty, size > total ? size - total : 0);
        }
    int64_t many[1001];
    lk_run_one_node(INT64_MAX, 1000, many);
    ASSERT_TRUE(many[999] > many[998] && many[1000] == INT64_MAX);
}

TEST_MAIN(TEST(runs_share_evenly_and_leave_nothing_out),
          TEST(nodes_cover_a_run_with_whole_subtrees), TEST(the_worst_run_fits),
          TEST(each_rank_can_have_one_node))
