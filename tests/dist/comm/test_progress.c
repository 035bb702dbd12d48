/* Nonblocking calls go on while the rank makes no calls, if it asks for that.
 *
 * LK_PROGRESS=1 is set here, before MPI is initialised.  Whether a request is complete is read from
 * its flag: lk_test() would make progress itself.
 */
#include "comm/comm.h"
#include "ranks.h"
#include "thread_count.h"

#include <lockstep/coll.h>
#include <lockstep/extra/clock.h>

#include <sys/resource.h>

enum { N = 100000 };

static const double longest_s = 10 * TEST_SLOWNESS;

/* Sleep until the request is complete: whether it is. */
static bool completes(lk_request *r)
{
    int64_t start = lk_clock_ns();
    while (!lk__request_done(r) && (double)(lk_clock_ns() - start) / 1e9 < longest_s)
        usleep(1000);
    return lk__request_done(r);
}

RANKS_TEST(allreduce_goes_on)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    static const char *const algorithms[] = {"tree", "direct", "ring", "shared"};
    float *x;
    ASSERT_OK(lk_alloc(&x, N, sizeof *x));
    ASSERT_OK(lk_allreduce(comm, NULL, &(float){0}, 1, LK_F32, LK_REDUCE_SUM, "arena"));
    for (int k = 0; k < (size > 1 ? 4 : 3); k++) {
        for (int64_t i = 0; i < N; i++)
            x[i] = (float)(rank + i % 7);
        lk_collective c = {.call = LK_CALL_ALLREDUCE,
                           .name = algorithms[k],
                           .out = x,
                           .count = N,
                           .algorithm = algorithms[k]};
        lk_request *r = NULL;
        ASSERT_OK(lk_coll_start(comm, &c, &r));
        ASSERT_TRUE(completes(r));
        ASSERT_OK(lk_wait(&r, NULL));
        ASSERT_TRUE(x[6] == (float)(size * (size - 1) / 2 + 6 * size));
    }
    lk_free(x);
}

/* Small and large, each rank with all others at once. */
RANKS_TEST(messages_go_on)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    float *x, *y;
    ASSERT_OK(lk_alloc_zero(&x, N, sizeof *x));
    ASSERT_OK(lk_alloc(&y, size * (int64_t)N, sizeof *y));
    x[0] = x[N - 1] = (float)rank;
    for (int64_t count = 1; count <= N; count += N - 1) {
        lk_request *r[16] = {NULL};
        for (int k = 0; k < size; k++) {
            ASSERT_OK(lk_irecv(comm, y + k * (int64_t)N, count, LK_F32, k, 1, "in", &r[k]));
            ASSERT_OK(lk_isend(comm, x, count, LK_F32, k, 1, "out", &r[size + k]));
        }
        for (int k = 0; k < 2 * size; k++)
            ASSERT_TRUE(completes(r[k]));
        ASSERT_OK(lk_waitall(2 * (int64_t)size, r));
        for (int k = 0; k < size; k++)
            ASSERT_TRUE(y[k * (int64_t)N + count - 1] == (float)k);
    }
    lk_free(x);
    lk_free(y);
}

/* Other calls in between, on this and other communicators, while large messages are under way. */
RANKS_TEST(calls_and_helper_mix)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    enum { ROUNDS = TEST_SLOWNESS > 1 ? 5 : 20 };
    float *x, *y;
    ASSERT_OK(lk_alloc(&x, N, sizeof *x));
    ASSERT_OK(lk_alloc(&y, N, sizeof *y));
    for (int k = 0; k < ROUNDS; k++) {
        lk_request *r[3] = {NULL};
        int64_t sum = rank, all = rank;
        lk_comm *twin;
        for (int64_t i = 0; i < N; i++)
            x[i] = (float)(rank + k);
        ASSERT_OK(lk_irecv(comm, y, N, LK_F32, (rank + 1) % size, k, "in", &r[0]));
        ASSERT_OK(lk_isend(comm, x, N, LK_F32, (rank + size - 1) % size, k, "out", &r[1]));
        lk_collective c = {.call = LK_CALL_ALLREDUCE, .out = &all, .count = 1, .dtype = LK_I64};
        ASSERT_OK(lk_coll_start(comm, &c, &r[2]));
        ASSERT_OK(lk_comm_dup(comm, &twin));
        ASSERT_OK(lk_allreduce(twin, NULL, &sum, 1, LK_I64, LK_REDUCE_SUM, "sum"));
        lk_comm_close(twin);
        usleep((useconds_t)(k % 3) * 100);
        ASSERT_OK(lk_waitall(3, r));
        ASSERT_EQ(sum, size * (size - 1) / 2);
        ASSERT_EQ(all, sum);
        ASSERT_TRUE(y[0] == (float)((rank + 1) % size + k) && y[N - 1] == y[0]);
    }
    lk_free(x);
    lk_free(y);
}

/* Without the progress thread nothing goes on, and what is under way ends in a wait; then again with it. */
RANKS_TEST(it_can_be_switched)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    for (int k = 0; k < 4; k++) {
        int64_t x = rank;
        lk_request *r;
        lk_collective c = {
            .call = LK_CALL_ALLREDUCE, .out = &x, .count = 1, .dtype = LK_I64, .algorithm = "tree"};
        ASSERT_OK(lk_comm_set_progress(comm, k % 2 == 1));
        ASSERT_OK(lk_comm_set_progress(comm, k % 2 == 1));
        ASSERT_OK(lk_barrier(comm, "switched"));
        ASSERT_OK(lk_coll_start(comm, &c, &r));
        ASSERT_OK(lk_comm_set_progress(comm, k >= 2));
        ASSERT_OK(lk_wait(&r, NULL));
        ASSERT_EQ(x, size * (size - 1) / 2);
    }
    ASSERT_OK(lk_comm_set_progress(comm, true));
}

/* A thread that has ended is listed for a moment longer. */
static void expect_threads(int n)
{
    for (int tries = 0; count_threads() != n && tries < 1000; tries++)
        usleep(1000);
    ASSERT_EQ(count_threads(), n);
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* While it waits for what does not come it sleeps; switched off, there is no thread. */
RANKS_TEST(it_sleeps)
{
    const double seconds = 0.3;
    float x;
    lk_request *r;
    ASSERT_OK(lk_irecv(comm, &x, 1, LK_F32, lk_comm_rank(comm), 1, "late", &r));
    ASSERT_OK(lk_barrier(comm, "all wait"));
    double before = cpu_s();
    usleep((useconds_t)(seconds * 1e6));
    double used = cpu_s() - before;
    if (used > 0.25 * seconds * lk_comm_size(comm))
        TEST_FAIL("%.3f s of %.3f s were used for waiting", used, seconds);
    ASSERT_OK(lk_barrier(comm, "all measured"));
    ASSERT_OK(lk_send(comm, &x, 1, LK_F32, lk_comm_rank(comm), 1, "late"));
    ASSERT_OK(lk_wait(&r, NULL));
    if (strcmp(lk_comm_transport(comm), "mpi") == 0) {
        int with = count_threads();
        ASSERT_OK(lk_comm_set_progress(comm, false));
        expect_threads(with - 1);
        ASSERT_OK(lk_comm_set_progress(comm, true));
        expect_threads(with);
    }
}

/* Rank 1 makes another call while the others sleep: the progress thread finds out, the wait says it. */
static lk_status one_differs(lk_comm *comm, void *arg)
{
    (void)arg;
    lk_collective c = {.call = LK_CALL_ALLREDUCE, .name = "g", .out = &(float){1}, .count = 1};
    lk_request *r = NULL;
    c.op = lk_comm_rank(comm) == 1 ? LK_REDUCE_MAX : LK_REDUCE_SUM;
    c.algorithm = "tree";
    lk_status st = lk_coll_start(comm, &c, &r);
    for (int64_t start = lk_clock_ns(); atomic_load(&comm->w->fault->state) != 2;) {
        ASSERT_TRUE((double)(lk_clock_ns() - start) / 1e9 < longest_s);
        usleep(1000);
    }
    if (st == LK_OK)
        st = lk_wait(&r, NULL);
    ASSERT_FAILS(st, LK_EMISMATCH, "mismatch: rank 0 calls allreduce(\"g\", f32 x 1, sum) #1 but");
    return LK_OK;
}

RANKS_TEST(a_fault_reaches_the_next_call)
{
    if (strcmp(lk_comm_transport(comm), "local") == 0 && lk_comm_rank(comm) == 0)
        ASSERT_OK(lk_run_local(3, one_differs, NULL));
    ASSERT_OK(lk_barrier(comm, "end"));
}

int main(void)
{
    setenv("LK_PROGRESS", "1", 1);
    return test_main();
}
