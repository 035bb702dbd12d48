/* A thousand ranks in one process: allreduce, barrier and split. */
#include "harness.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

static lk_status reduce_and_split(lk_comm *comm, void *arg)
{
    (void)arg;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    int64_t x[3] = {rank, 1, -rank}, y[3];
    LK_TRY(lk_allreduce(comm, x, y, 3, LK_I64, LK_REDUCE_SUM, "x"));
    ASSERT_EQ(y[0], (int64_t)size * (size - 1) / 2);
    ASSERT_EQ(y[1], size);
    ASSERT_EQ(y[2], -y[0]);
    LK_TRY(lk_barrier(comm, "b"));
    lk_comm *part;
    LK_TRY(lk_comm_split(comm, rank % 7, 0, &part));
    ASSERT_EQ(lk_comm_rank(part), rank / 7);
    LK_TRY(lk_allreduce(part, x, y, 1, LK_I64, LK_REDUCE_MAX, "last"));
    ASSERT_EQ(y[0], rank % 7 + 7 * (lk_comm_size(part) - 1));
    lk_comm_close(part);
    return LK_OK;
}

TEST(hundred_ranks)
{
    ASSERT_OK(lk_run_local(100, reduce_and_split, NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(thousand_ranks)
{
    ASSERT_OK(lk_run_local(1000, reduce_and_split, NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* 1.0f and tiny numbers: another order gives another sum. */
static lk_status canonical(lk_comm *comm, void *arg)
{
    float *sum = arg, x[512], y;
    lk_range node[LK_MAX_SUBTREES];
    lk_range range = lk_range_split(4096, lk_comm_rank(comm), lk_comm_size(comm));
    int n = lk_range_subtrees(4096, range, node);
    for (int k = 0; k < n; k++) {
        /* The node's own tree; the values are powers of two, so the pieces are joined by hand. */
        float level[13];
        int64_t count = 0;
        for (int64_t p = node[k].first; p < node[k].first + node[k].n; p++) {
            float v = 1.0F / (float)(1 + p * p % 977);
            int at = 0;
            for (int64_t bits = count++; bits & 1; bits >>= 1)
                v = level[at++] + v;
            level[at] = v;
        }
        x[k] = level[63 - __builtin_clzll((unsigned long long)node[k].n)];
    }
    LK_TRY(lk_coll_run(comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                              .name = "canonical",
                                              .in = x,
                                              .out = &y,
                                              .count = 1,
                                              .dtype = LK_F32,
                                              .pieces = 4096}));
    if (lk_comm_rank(comm) == 0)
        *sum = y;
    return LK_OK;
}

TEST(a_sum_has_the_same_bits_on_any_number_of_ranks)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 100, 333, 1000};
    float first, sum;
    ASSERT_OK(lk_run_local(1, canonical, &first));
    ASSERT_TRUE(first > 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (TEST_SLOWNESS > 1 && sizes[i] > 100)
            continue;
        ASSERT_OK(lk_run_local(sizes[i], canonical, &sum));
        ASSERT_SAME_BITS(&sum, &first, sizeof sum);
    }
}
