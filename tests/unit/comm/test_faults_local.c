/* A rank that fails ends the others, and no allocation that fails leaves anything behind. */
#include "comm/comm.h"
#include "faults.h"

#include <lockstep/coll.h>

#include <time.h>

static lk_status rank_two_refuses(lk_comm *comm, void *arg)
{
    (void)arg;
    if (lk_comm_rank(comm) == 2)
        return LK_RAISE(LK_ESHAPE, "the image has no pixels");
    return LK_TRACE(lk_barrier(comm, "b"));
}

TEST(a_rank_that_fails_ends_the_others)
{
    ASSERT_FAILS(lk_run_local(4, rank_two_refuses, NULL), LK_ESHAPE,
                 "rank 2: the image has no pixels");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status refuses(void)
{
    return LK_RAISE(LK_ESHAPE, "the image has no pixels");
}

static lk_status rank_one_forwards(lk_comm *comm, void *arg)
{
    (void)arg;
    if (lk_comm_rank(comm) == 1)
        LK_TRY(refuses());
    return LK_TRACE(lk_barrier(comm, "b"));
}

TEST(the_trace_is_that_of_the_rank_that_failed)
{
    static const char *const lines[] = {
        "error: shapes do not conform: rank 1: the image has no pixels\n", "  #0 refuses (",
        "  #1 rank_one_forwards (", "  #2 lk_run_local ("};
    char text[2048] = "";
    ASSERT_EQ(lk_run_local(3, rank_one_forwards, NULL), LK_ESHAPE);
    FILE *f = fmemopen(text, sizeof text, "w");
    ASSERT_TRUE(f);
    lk_error_print(f);
    fclose(f);
    const char *at = text;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        at = strstr(at, lines[i]);
        ASSERT_TRUE(at);
    }
    ASSERT_TRUE(!strstr(at, "#3"));
}

/* It has left, whatever it still holds. */
static lk_status rank_one_forgets(lk_comm *comm, void *arg)
{
    (void)arg;
    lk_comm *twin;
    LK_TRY(lk_comm_set_deadline(comm, 600));
    LK_TRY(lk_comm_dup(comm, &twin));
    if (lk_comm_rank(comm) == 1)
        return LK_OK;
    lk_status st = lk_barrier(twin, "b");
    lk_comm_close(twin);
    return st;
}

TEST(a_rank_that_forgets_a_communicator_has_left)
{
    ASSERT_FAILS(lk_run_local(2, rank_one_forgets, NULL), LK_ESTALL, "for rank 1, which left");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Rank 0 sleeps in one call when rank 1 comes to another, in which it only listens. */
static lk_status ranks_call_differently(lk_comm *comm, void *arg)
{
    (void)arg;
    float x = 1, all[2];
    LK_TRY(lk_comm_set_deadline(comm, 600));
    LK_TRY(lk_allreduce(comm, NULL, &x, 1, LK_F32, LK_REDUCE_SUM, "warm"));
    if (lk_comm_rank(comm) == 0)
        return lk_allreduce(comm, NULL, &x, 1, LK_F32, LK_REDUCE_SUM, "sum");
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    return lk_gather(comm, &x, all, 1, LK_F32, 1, "values");
}

TEST(different_calls_are_noticed_at_once)
{
    ASSERT_FAILS(lk_run_local(2, ranks_call_differently, NULL), LK_EMISMATCH,
                 "rank 0 calls allreduce(\"sum\", f32 x 1, sum) #2 but rank 1 calls gather(");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

enum { CHATTER = 500 };

/* Rank 0 waits for rank 1, which does not come; rank 2 sends it other messages until it has given up, or
 * for 10 seconds. */
static lk_status rank_two_chatters(lk_comm *comm, void *arg)
{
    int *sent = arg, rank = lk_comm_rank(comm);
    float x = 0;
    LK_TRY(lk_comm_set_deadline(comm, 0.4));
    for (int i = 0; i < CHATTER && rank > 0 && atomic_load(&comm->w->fault->state) == 0; i++) {
        if (rank == 2)
            LK_TRY(lk_send(comm, &x, 1, LK_F32, 0, i, "chatter"));
        if (rank == 2)
            *sent = i + 1;
        usleep(20000);
    }
    if (rank == 0)
        LK_TRY(lk_recv(comm, &x, 1, LK_F32, 1, CHATTER, "wanted", NULL));
    return LK_OK;
}

TEST(other_messages_do_not_prolong_a_wait)
{
    int sent = 0;
    ASSERT_FAILS(lk_run_local(3, rank_two_chatters, &sent), LK_ESTALL,
                 "in recv(\"wanted\") for rank 1");
    ASSERT_TRUE(sent > 0 && sent < CHATTER);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Each rank is in time, all together are not. */
static lk_status ranks_come_in_turn(lk_comm *comm, void *arg)
{
    (void)arg;
    float x = 0, all[4];
    LK_TRY(lk_comm_set_deadline(comm, 1.0 * TEST_SLOWNESS));
    usleep((useconds_t)lk_comm_rank(comm) * 600000);
    return LK_TRACE(lk_gather(comm, &x, all, 1, LK_F32, 0, "turns"));
}

TEST(own_messages_prolong_a_wait)
{
    ASSERT_OK(lk_run_local(4, ranks_come_in_turn, NULL));
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
    lk_sendrecv_side send = {zeros, LARGE, (rank + 1) % size, 0},
                     recv = {got, LARGE, (rank + 1) % size, 0};
    recv.rank = (rank + size - 1) % size;
    LK_TRY_TO(done, lk_sendrecv(twin, LK_F32, &send, &recv, "halo", NULL));
    LK_TRY_TO(done, lk_allreduce(twin, zeros, sum, 10, LK_F32, LK_REDUCE_SUM, "g"));
    lk_shm *s = NULL;
    LK_TRY_TO(done, lk_shm_open(twin, 1000, "part", &s));
    lk_shm_close(s);
    lk_request *r;
    LK_TRY_TO(done, lk_irecv(comm, got, 1, LK_F32, rank, 1, "self", &r));
    st = lk_send(comm, zeros, 1, LK_F32, rank, 1, "self");
    lk_status waited = lk_wait(&r, NULL);
    st = st == LK_OK ? waited : st;
done:
    lk_comm_close(twin);
    return st;
}

static lk_status three_ranks_work(void)
{
    return lk_run_local(3, rank_works, NULL);
}

/* Several calls are under way at once, of which the ranks agree on some.  After the fault nothing goes
 * on: what a call could not do is not tried again. */
static lk_status ranks_differ(lk_comm *comm, void *arg)
{
    enum { N_CALLS = 6, COUNT = 3000 };
    static const lk_comm_call calls[] = {LK_CALL_ALLREDUCE, LK_CALL_ALLGATHER, LK_CALL_BCAST};
    const uint32_t *seed = arg;
    uint32_t own = (*seed + (uint32_t)lk_comm_rank(comm)) * 2654435761U >> 8;
    float in[COUNT] = {0}, (*out)[4 * COUNT];
    LK_TRY(lk_alloc(&out, N_CALLS, sizeof *out));
    lk_request *r[N_CALLS] = {NULL};
    lk_status st = lk_comm_set_deadline(comm, 0.2);
    for (int i = 0; i < N_CALLS && st == LK_OK; i++, own /= 3) {
        lk_comm_call call = i == 0 ? LK_CALL_ALLREDUCE : calls[own % 3];
        bool bcast = call == LK_CALL_BCAST;
        lk_collective c = {
            .call = call, .in = bcast ? NULL : in, .out = out[i], .count = own % 2 ? COUNT : 1};
        memset(out[i], 0, sizeof out[i]);
        st = lk_coll_start(comm, &c, &r[i]);
    }
    for (int i = 0; i < 30 && st == LK_OK; i++) {
        usleep(100);
        st = lk__progress(comm->w);
    }
    for (int i = 0; i < 30 && st != LK_OK; i++)
        ASSERT_EQ(lk__progress(comm->w), st);
    lk_status waited = lk_waitall(N_CALLS, r);
    st = st == LK_OK ? waited : st;
    lk_free(out);
    return st;
}

TEST(calls_under_way_end_together)
{
    int mismatches = 0;
    for (uint32_t seed = 0; seed < 100; seed++) {
        lk_status st = lk_run_local(2 + (int)(seed % 3), ranks_differ, &seed);
        ASSERT_TRUE(st == LK_OK || st == LK_EMISMATCH || st == LK_ESTALL);
        ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
        mismatches += st == LK_EMISMATCH;
    }
    lk_error_clear();
    ASSERT_TRUE(mismatches > 50);
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_allocations_fail_but(three_ranks_work, 8) > 30);
}
