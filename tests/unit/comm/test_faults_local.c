/* A rank that fails ends the others, and no allocation that fails leaves anything behind. */
#include "faults.h"

#include <lockstep/coll.h>

static lk_status rank_two_refuses(lk_comm *comm, void *arg)
{
    (void)arg;
    if (lk_comm_rank(comm) == 2)
        return LK_RAISE(LK_ESHAPE, "the image has no pixels");
    LK_TRY(lk_barrier(comm, "b"));
    return LK_OK;
}

static void a_rank_that_fails_ends_the_others(void)
{
    ASSERT_FAILS(lk_run_local(4, rank_two_refuses, NULL), LK_ESHAPE,
                 "rank 2: the image has no pixels");
    ASSERT_EQ(lk_alloc_stats_get().live_blocks, 0);
}

static lk_status rank_works(lk_comm *comm, void *arg)
{
    (void)arg;
    enum { LARGE = 5000 };
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    static float zeros[LARGE];
    float got[LARGE], sum[10];
    lk_comm *twin = NULL;
    lk_status st;
    LK_TRY(lk_comm_dup(comm, &twin));
    lk_part send = {zeros, LARGE, (rank + 1) % size, 0}, recv = {got, LARGE, (rank + 1) % size, 0};
    recv.rank = (rank + size - 1) % size;
    LK_TRY_TO(done, lk_sendrecv(twin, LK_F32, &send, &recv, "halo", NULL));
    LK_TRY_TO(done, lk_allreduce(twin, zeros, sum, 10, LK_F32, LK_FOLD_SUM, "g"));
    lk_shared *s = NULL;
    LK_TRY_TO(done, lk_shared_new(twin, 1000, "part", &s));
    lk_shared_free(s);
    lk_request *r;
    LK_TRY_TO(done, lk_irecv(comm, got, 1, LK_F32, rank, 1, "self", &r));
    st = lk_send(comm, zeros, 1, LK_F32, rank, 1, "self");
    lk_status waited = lk_wait(&r, NULL);
    st = st == LK_OK ? waited : st;
done:
    lk_comm_free(twin);
    return st;
}

static lk_status three_ranks_work(void)
{
    return lk_run_local(3, rank_works, NULL);
}

static void every_allocation_may_fail(void)
{
    ASSERT_TRUE(test_every_allocation_fails(three_ranks_work) > 30);
}

TEST_MAIN(TEST(a_rank_that_fails_ends_the_others), TEST(every_allocation_may_fail))
