/* Ranks that wait for one that is slow, stopped or busy are not taken for ranks that wait in vain.
 *
 * That all wait in vain is told after a fraction of a second (src/comm/faults/vain.h); here all but one wait for
 * several times that, for whatever the one does that no board shows: it computes, asks lk_test(), has its
 * progress thread work, is stopped with a message on its way, or hands on a message to the next.  On 4 local ranks
 * and on 16, more than there are cores; under MPI, on those that the launcher started.
 */
#include "comm/comm.h"
#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/extra/clock.h>

#include <pthread.h>

enum { LARGE = 100000 };

/* Twice what it takes to find that all wait in vain; and longer than it may ever take. */
static const useconds_t while_us = 700000, long_us = 3000000;

/* All but rank 1 wait in a barrier, a receive from it, and one from anybody. */
static void a_rank_that_computes_is_waited_for(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    float x = 0;
    if (rank == 1)
        usleep(size == 4 ? while_us : long_us);
    for (int r = 0; rank == 1 && r < size; r++)
        if (r != 1 && r != 2)
            ASSERT_OK(lk_send(comm, &x, 1, LK_F32, r, 7, "x"));
    if (rank != 1 && rank != 2)
        ASSERT_OK(lk_recv(comm, &x, 1, LK_F32, rank == 0 ? 1 : LK_ANY_RANK, 7, "x", NULL));
    ASSERT_OK(lk_barrier(comm, "end"));
}

/* A rank that asks from time to time, and answers then. */
static void a_rank_that_tests_is_waited_for(lk_comm *comm)
{
    int rank = lk_comm_rank(comm);
    float x = 0;
    if (rank == 1) {
        lk_request *r;
        ASSERT_OK(lk_irecv(comm, &x, 1, LK_F32, 1, 3, "own", &r));
        bool done = false;
        for (int64_t start = lk_clock_ns(); lk_clock_ns() - start < 1000 * (int64_t)while_us;) {
            ASSERT_OK(lk_test(&r, &done, NULL));
            ASSERT_TRUE(!done);
            usleep(1000);
        }
        ASSERT_OK(lk_send(comm, &x, 1, LK_F32, 1, 3, "own"));
        ASSERT_OK(lk_wait(&r, NULL));
    }
    ASSERT_OK(lk_barrier(comm, "end"));
}

/* A message goes round among all but rank 0, which waits: fast, slowly, and slower than others look. */
static void a_message_that_goes_round_is_waited_for(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), n = lk_comm_size(comm) - 1;
    static const useconds_t pause_us[] = {0, 1000, 20000, 60000, 120000, 260000};
    enum { N_PAUSES = sizeof pause_us / sizeof pause_us[0] };
    int32_t x = 0, hops = 2 * N_PAUSES;
    for (int at = 0; at < hops && rank > 0 && n > 1; at++) {
        if (rank == 1 + at % n) {
            usleep(pause_us[at % N_PAUSES]);
            x++;
            ASSERT_OK(lk_send(comm, &x, 1, LK_I32, 1 + (at + 1) % n, at, "token"));
        } else if (rank == 1 + (at + 1) % n) {
            ASSERT_OK(lk_recv(comm, &x, 1, LK_I32, 1 + at % n, at, "token", NULL));
        }
    }
    if (n > 1 && rank == 1 + hops % n) {
        ASSERT_EQ(x, hops);
        ASSERT_OK(lk_send(comm, &x, 1, LK_I32, 0, 7, "result"));
    }
    if (n > 1 && rank == 0)
        ASSERT_OK(lk_recv(comm, &x, 1, LK_I32, LK_ANY_RANK, 7, "result", NULL));
    ASSERT_OK(lk_barrier(comm, "end"));
}

/* Two groups: one waits for a member of the other, which that one waits for as well. */
static void groups_wait_for_each_other(lk_comm *comm)
{
    int rank = lk_comm_rank(comm);
    lk_comm *half;
    float x = 0, sum[4];
    ASSERT_OK(lk_comm_split(comm, rank % 2, rank, &half));
    if (rank == 1)
        usleep(while_us);
    if (rank == 1)
        ASSERT_OK(lk_send(comm, &x, 1, LK_F32, 0, 7, "from the other half"));
    if (rank == 0)
        ASSERT_OK(lk_recv(comm, &x, 1, LK_F32, 1, 7, "from the other half", NULL));
    for (int i = 0; i < 4; i++)
        sum[i] = (float)rank;
    ASSERT_OK(lk_allreduce(half, NULL, sum, 4, LK_F32, LK_REDUCE_SUM, "half"));
    lk_comm_close(half);
    ASSERT_OK(lk_barrier(comm, "end"));
}

/* Requests of the rank go on by its progress thread while it computes; then it waits for them with the others.
 * Large messages of one to all others come in between. */
static void a_rank_with_a_helper_is_waited_for(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    float *x;
    lk_request *sum, *in = NULL;
    ASSERT_OK(lk_alloc_zero(&x, 2 * LARGE, sizeof *x));
    ASSERT_OK(lk_comm_set_progress(comm, true));
    lk_collective c = {
        .call = LK_CALL_ALLREDUCE, .name = "sum", .out = x, .count = LARGE, .algorithm = "ring"};
    ASSERT_OK(lk_coll_start(comm, &c, &sum));
    if (rank != 1)
        ASSERT_OK(lk_irecv(comm, x + LARGE, LARGE, LK_F32, 1, 7, "x", &in));
    if (rank == 1)
        usleep(while_us);
    for (int r = 0; rank == 1 && r < size; r++) {
        if (r != rank)
            ASSERT_OK(lk_send(comm, x, LARGE, LK_F32, r, 7, "x"));
        usleep(while_us / 16);
    }
    ASSERT_OK(lk_wait(&in, NULL));
    if (rank == 0)
        usleep(while_us);
    ASSERT_OK(lk_wait(&sum, NULL));
    ASSERT_OK(lk_barrier(comm, "end"));
    ASSERT_OK(lk_comm_set_progress(comm, false));
    lk_free(x);
}

/* Let a process go on after a while. */
static void *continue_later(void *arg)
{
    usleep(2 * while_us);
    kill(*(pid_t *)arg, SIGCONT);
    return NULL;
}

/* Rank 1 waits, and is stopped; then all wait, and a message for it, of `count` elements, is on its way. */
static void a_stopped_rank_is_waited_for(lk_comm *comm, int64_t count)
{
    int rank = lk_comm_rank(comm);
    pid_t pid = getpid();
    pthread_t thread;
    float *x;
    ASSERT_OK(lk_alloc_zero(&x, count, sizeof *x));
    ASSERT_OK(lk_bcast(comm, &pid, 1, LK_I32, 1, "process"));
    if (rank == 0) {
        usleep(while_us / 5); /* it rests */
        ASSERT_EQ(kill(pid, SIGSTOP), 0);
        ASSERT_EQ(pthread_create(&thread, NULL, continue_later, &pid), 0);
        ASSERT_OK(lk_send(comm, x, count, LK_F32, 1, 7, "to a stopped rank"));
        ASSERT_OK(lk_recv(comm, x, count, LK_F32, 1, 8, "back", NULL));
        pthread_join(thread, NULL);
    } else if (rank == 1) {
        ASSERT_OK(lk_recv(comm, x, count, LK_F32, 0, 7, "to a stopped rank", NULL));
        ASSERT_OK(lk_send(comm, x, count, LK_F32, 0, 8, "back"));
    }
    ASSERT_OK(lk_barrier(comm, "end"));
    lk_free(x);
}

/* Rank 1 waits in shared memory, and is stopped; the others come, find there what they need, and wait
 * for it in the next call.  No message shows that it has still to see what they posted. */
static void a_stopped_rank_that_has_to_see_a_flag_is_waited_for(lk_comm *comm)
{
    int rank = lk_comm_rank(comm);
    pid_t pid = getpid();
    pthread_t thread;
    float x[4] = {0};
    for (int i = 0; i < 3; i++)
        ASSERT_OK(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "warm"));
    ASSERT_OK(lk_bcast(comm, &pid, 1, LK_I32, 1, "process"));
    if (rank != 1)
        usleep(rank == 0 ? while_us / 4 : while_us / 2);
    if (rank == 0) {
        ASSERT_EQ(kill(pid, SIGSTOP), 0);
        ASSERT_EQ(pthread_create(&thread, NULL, continue_later, &pid), 0);
    }
    ASSERT_OK(lk_allreduce(comm, NULL, x, 4, LK_F32, LK_REDUCE_SUM, "with a stopped rank"));
    ASSERT_OK(lk_barrier(comm, "end"));
    if (rank == 0)
        pthread_join(thread, NULL);
}

static lk_status run(lk_comm *comm, void *arg)
{
    (void)arg;
    bool mpi = strcmp(lk_comm_transport(comm), "mpi") == 0;
    if (lk_comm_size(comm) < 2)
        return LK_OK;
    ASSERT_OK(lk_comm_set_progress(comm, false));
    a_rank_that_computes_is_waited_for(comm);
    a_rank_that_tests_is_waited_for(comm);
    a_message_that_goes_round_is_waited_for(comm);
    groups_wait_for_each_other(comm);
    a_rank_with_a_helper_is_waited_for(comm);
    if (mpi) {
        a_stopped_rank_is_waited_for(comm, 1);
        a_stopped_rank_is_waited_for(comm, LARGE);
        a_stopped_rank_that_has_to_see_a_flag_is_waited_for(comm);
    }
    return LK_OK;
}

int main(void)
{
    const char *transport = getenv("TEST_TRANSPORT");
    lk_comm *comm = NULL;
    signal(SIGALRM, test_on_alarm);
    alarm(TEST_TIMEOUT_S);
    test_current = "ranks that are slow are waited for";
    if (transport) {
        setenv("LK_PROGRESS", "1", 1); /* before MPI is initialised */
        ASSERT_OK(lk_comm_open(transport, &comm));
        ASSERT_OK(run(comm, NULL));
    }
    for (int n = 4; n <= 16 && !transport; n += 12)
        ASSERT_OK(lk_run_local(n, run, NULL));
    if (!comm || lk_comm_rank(comm) == 0)
        printf("ok ranks_that_are_slow_are_waited_for\n");
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    return 0;
}
