/* Ranks that all wait in vain are told so, long before the deadline: who waits for whom, in which calls,
 * and which message nobody receives.  The deadline is none, so that nothing else ends them. */
#include "comm/comm.h"
#include "faults.h"

#include <lockstep/coll.h>

enum { LARGE = 10000 };

static float room[4][2][LARGE];

/* What rank 0 and rank 1 do; where `progress`, each with a progress thread. */
struct vain {
    lk_status (*fn)(lk_comm *comm, int rank);
    bool progress;
};

static lk_status run_rank(lk_comm *comm, void *arg)
{
    const struct vain *v = arg;
    LK_TRY(lk_comm_set_deadline(comm, 0));
    LK_TRY(lk_comm_set_progress(comm, v->progress));
    return v->fn(comm, lk_comm_rank(comm));
}

static lk_status run(int n, lk_status (*fn)(lk_comm *comm, int rank), bool progress)
{
    lk_status st = lk_run_local(n, run_rank, &(struct vain){fn, progress});
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return st;
}

static lk_status sends_other_tag(lk_comm *comm, int rank)
{
    float *x = room[rank][0];
    if (rank == 1)
        LK_TRY(lk_send(comm, x, 1, LK_F32, 0, 8, "w"));
    if (rank == 0)
        LK_TRY(lk_recv(comm, x, 1, LK_F32, 1, 7, "w", NULL));
    return LK_TRACE(lk_barrier(comm, "end"));
}

TEST(a_message_with_another_tag_is_named)
{
    static const char want[] =
        "stall: all 2 ranks wait, and no message is under way: rank 0 waits in recv(\"w\", tag 7) "
        "for rank 1, which waits in barrier(\"end\") #1 for rank 0: a circle of waits; no receive "
        "of rank 0 takes send(\"w\", tag 8) of rank 1: compare ranks, tags and communicators";
    ASSERT_FAILS(run(2, sends_other_tag, false), LK_ESTALL, want);
    ASSERT_FAILS(run(2, sends_other_tag, true), LK_ESTALL, want);
    ASSERT_FAILS(
        run(4, sends_other_tag, true), LK_ESTALL,
        "all 4 ranks wait, and no message is under way: rank 0 waits in recv(\"w\", tag 7) "
        "for rank 1, which waits in barrier(\"end\") #1 for rank");
}

static lk_status sends_on_another_communicator(lk_comm *comm, int rank)
{
    float *x = room[rank][0];
    lk_comm *twin;
    LK_TRY(lk_comm_dup(comm, &twin));
    lk_status st = rank == 1 ? lk_send(twin, x, 1, LK_F32, 0, 7, "w")
                             : lk_recv(comm, x, 1, LK_F32, LK_ANY_RANK, LK_ANY_TAG, "w", NULL);
    if (st == LK_OK)
        st = lk_barrier(comm, "end");
    lk_comm_close(twin);
    return st;
}

TEST(a_message_on_another_communicator_is_named)
{
    ASSERT_FAILS(run(2, sends_on_another_communicator, false), LK_ESTALL,
                 "rank 0 waits in recv(\"w\", any tag) for any rank; no receive of rank 0 takes "
                 "send(\"w\", tag 7) of rank 1, on another communicator: compare");
}

/* Each receives from the next; the last has left, if it is one too many. */
static lk_status all_receive(lk_comm *comm, int rank)
{
    if (rank == 3)
        return LK_OK;
    return lk_recv(comm, room[rank][0], 1, LK_F32, (rank + 1) % (lk_comm_size(comm) < 3 ? 2 : 3), 7,
                   "x", NULL);
}

TEST(receives_round_a_circle_are_named)
{
    ASSERT_FAILS(
        run(2, all_receive, false), LK_ESTALL,
        "all 2 ranks wait, and no message is under way: rank 0 waits in recv(\"x\", tag 7) "
        "for rank 1, which waits in recv(\"x\", tag 7) for rank 0: a circle of waits; "
        "compare what these ranks send and receive");
    ASSERT_FAILS(run(4, all_receive, false), LK_ESTALL,
                 "all 3 ranks that have not left wait, and no message is under way: rank 0 waits "
                 "in recv(\"x\", tag 7) for rank 1, which waits in recv(\"x\", tag 7) for rank 2, "
                 "which waits in recv(\"x\", tag 7) for rank 0: a circle");
}

static lk_status both_send(lk_comm *comm, int rank)
{
    LK_TRY(lk_send(comm, room[rank][0], LARGE, LK_F32, 1 - rank, 7, rank ? "b" : "a"));
    return LK_TRACE(
        lk_recv(comm, room[rank][1], LARGE, LK_F32, 1 - rank, 7, rank ? "a" : "b", NULL));
}

TEST(sends_that_wait_for_each_other_are_named)
{
    ASSERT_FAILS(run(2, both_send, false), LK_ESTALL,
                 "rank 0 waits in send(\"a\", tag 7) for rank 1, which waits in send(\"b\", tag 7) "
                 "for rank 0: a circle of waits; no receive of rank 0 takes send(\"b\", tag 7)");
}

/* One waits in a collective call of a part of the ranks, one for any of two requests. */
static lk_status waits_in_a_part(lk_comm *comm, int rank)
{
    lk_comm *part;
    lk_request *r[2] = {NULL, NULL};
    int64_t which;
    LK_TRY(lk_comm_split(comm, rank > 0, 0, &part));
    lk_status st = LK_OK;
    if (rank == 2) {
        for (int i = 0; i < 2 && st == LK_OK; i++)
            st = lk_irecv(part, room[rank][i], 1, LK_F32, 0, i, "in the part", &r[i]);
        if (st == LK_OK)
            st = lk_waitany(2, r, &which, NULL);
        lk_status rest = lk_waitall(2, r);
        st = st == LK_OK ? rest : st;
    } else if (rank == 1) {
        st = lk_allreduce(part, NULL, room[rank][0], 4, LK_F32, LK_REDUCE_SUM, "sum");
    } else {
        st = lk_barrier(comm, "end");
    }
    lk_comm_close(part);
    return st;
}

TEST(waits_in_other_communicators_count)
{
    ASSERT_FAILS(run(3, waits_in_a_part, false), LK_ESTALL,
                 "all 3 ranks wait, and no message is under way: rank 2 waits in recv(\"in the "
                 "part\", tag 0) for rank 1, which waits in allreduce(\"sum\") #1 for rank 2");
}

TEST(a_rank_alone_waits_in_vain)
{
    lk_comm *comm;
    ASSERT_OK(lk_comm_open("self", &comm));
    ASSERT_OK(lk_comm_set_deadline(comm, 0));
    ASSERT_FAILS(lk_recv(comm, room[0][0], 1, LK_F32, 0, 7, "x", NULL), LK_ESTALL,
                 "stall: no other rank is left, and no message is under way: rank 0 waits in "
                 "recv(\"x\", tag 7) for rank 0");
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
