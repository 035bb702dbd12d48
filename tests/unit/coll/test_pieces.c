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

TEST_MAIN(TEST(runs_share_evenly_and_leave_nothing_out),
          TEST(nodes_cover_a_run_with_whole_subtrees), TEST(the_worst_run_fits))
