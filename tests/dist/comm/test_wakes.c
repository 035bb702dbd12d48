/* A rank that sleeps is woken.
 *
 * Messages to it take about as long as the system takes to wake a thread: both are measured in the same
 * run, in turns: pings between ranks 0 and 1 that always sleep before they look, and the same between two
 * threads on bare futexes.  A wake that is lost ends with the longest nap, which is some hundred times as
 * long.
 *
 * Calls in shared memory: all but the last rank sleep when it comes, and the epochs of their wakeups tell whether it notified them.
 */
#include "comm/segment.h"
#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/extra/clock.h>

#include <pthread.h>
#include <sched.h>

enum { PINGS = 200, ROUNDS = 7, LIMIT = 25 };

struct pair {
    lk__wakeup wakeup[2];
};

static void bare_pass(struct pair *p, int to)
{
    atomic_fetch_add(&p->wakeup[to].epoch, 1);
    lk__futex_wake(&p->wakeup[to].epoch);
}

static void bare_await(struct pair *p, int me, uint32_t until)
{
    for (uint32_t now; (now = atomic_load(&p->wakeup[me].epoch)) < until;)
        lk__futex_wait(&p->wakeup[me].epoch, now, 1000000000);
}

static void *bare_partner(void *arg)
{
    struct pair *p = arg;
    for (uint32_t i = 1; i <= PINGS; i++) {
        bare_await(p, 1, i);
        bare_pass(p, 0);
    }
    return NULL;
}

/* Nanoseconds for a ping and its answer on bare futexes. */
static double bare(void)
{
    struct pair *p;
    pthread_t partner;
    ASSERT_OK(lk_alloc_zero(&p, 1, sizeof *p));
    ASSERT_EQ(pthread_create(&partner, NULL, bare_partner, p), 0);
    int64_t start = lk_clock_ns();
    for (uint32_t i = 1; i <= PINGS; i++) {
        bare_pass(p, 1);
        bare_await(p, 0, i);
    }
    double ns = (double)(lk_clock_ns() - start) / PINGS;
    pthread_join(partner, NULL);
    lk_free(p);
    return ns;
}

static double messages(lk_comm *comm)
{
    int rank = lk_comm_rank(comm), x = 0;
    int64_t start = lk_clock_ns();
    for (int i = 0; i < PINGS; i++) {
        if (rank == 0)
            ASSERT_OK(lk_send(comm, &x, 1, LK_I32, 1, 0, "ping"));
        ASSERT_OK(lk_recv(comm, &x, 1, LK_I32, 1 - rank, 0, "ping", NULL));
        if (rank == 1)
            ASSERT_OK(lk_send(comm, &x, 1, LK_I32, 0, 0, "ping"));
    }
    return (double)(lk_clock_ns() - start) / PINGS;
}

RANKS_TEST(a_message_wakes_its_receiver)
{
    int rank = lk_comm_rank(comm);
    double best[2] = {1e18, 1e18};
    for (int k = 0; k < ROUNDS && rank < 2 && lk_comm_size(comm) > 1; k++) {
        comm->w->spins = comm->w->yields = 0;
        double ns = messages(comm);
        best[1] = ns < best[1] ? ns : best[1];
        ns = rank == 0 ? bare() : 0;
        best[0] = ns < best[0] ? ns : best[0];
    }
    if (rank == 0 && lk_comm_size(comm) > 1) {
        printf("a ping takes %.1f us, %.1f us on bare futexes\n", best[1] / 1e3, best[0] / 1e3);
        ASSERT_TRUE(best[1] < LIMIT * TEST_SLOWNESS * best[0]);
    }
    ASSERT_OK(lk_barrier(comm, "end"));
}

/* ---- calls in shared memory ---- */

enum { CALLS = 12, FLOATS = 4096 };

static bool all_asleep(const lk_comm *comm)
{
    const lk__world *w = comm->w;
    for (int r = 0; r < lk_comm_size(comm) - 1; r++)
        if (!lk__wakeup_is_waiting(w->wakeup[comm->member[r]]))
            return false;
    return true;
}

/* How often this rank was notified while it slept in calls that the last rank came to late. */
static uint32_t rings_heard(lk_comm *comm, const lk_collective *call)
{
    lk__world *w = comm->w;
    int spins = w->spins, yields = w->yields;
    bool late = lk_comm_rank(comm) == lk_comm_size(comm) - 1;
    uint32_t rings = 0;
    for (int i = 0; i < CALLS; i++) {
        ASSERT_OK(lk_barrier(comm, "begin"));
        w->spins = late ? 2000 : 1; /* a core for each rank: it works before it waits */
        w->yields = 0;
        uint32_t before = atomic_load(&w->wakeup[w->rank]->epoch);
        while (late && !all_asleep(comm))
            sched_yield();
        ASSERT_OK(lk_coll_run(comm, call));
        rings += atomic_load(&w->wakeup[w->rank]->epoch) != before;
        w->spins = spins;
        w->yields = yields;
    }
    return rings;
}

/* One whose nap ends just then looks for itself; of so many calls that happens in a few at most. */
RANKS_TEST(the_last_one_wakes_all)
{
    static const lk_comm_call kinds[] = {LK_CALL_ALLREDUCE, LK_CALL_ALLGATHER,
                                         LK_CALL_REDUCE_SCATTER};
    int size = lk_comm_size(comm);
    if (size < 2 || size > 16 || lk_comm_nodes(comm) > 1)
        return;
    lk_shm *shared = NULL;
    ASSERT_OK(lk_shm_open(comm, (int64_t)2 * size * FLOATS * 4, "vectors", &shared));
    float *own = lk_shm_data(shared, lk_comm_rank(comm));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lk_collective call = {.call = kinds[i],
                              .algorithm = "shared",
                              .name = "late",
                              .in = own,
                              .out = own + (int64_t)size * FLOATS,
                              .count = FLOATS,
                              .dtype = LK_F32,
                              .op = LK_REDUCE_SUM};
        uint32_t rings = rings_heard(comm, &call);
        ASSERT_TRUE(lk_comm_rank(comm) == size - 1 || rings >= CALLS / 2);
    }
    ASSERT_OK(lk_barrier(comm, "end"));
    lk_shm_close(shared);
}
