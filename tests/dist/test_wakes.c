/* A rank that sleeps is woken: messages to it take about as long as the system takes to wake a thread.
 *
 * Both are measured in the same run, in turns: pings between ranks 0 and 1 that always sleep before
 * they look, and the same between two threads on bare futexes.  A wake that is lost ends with the
 * longest nap, which is some hundred times as long.
 */
#include "comm/segment.h"
#include "ranks.h"

#include <lockstep/clock.h>
#include <lockstep/coll.h>

#include <pthread.h>

enum { PINGS = 200, ROUNDS = 7, LIMIT = 25 };

struct pair {
    lk__bell bell[2];
};

static void bare_pass(struct pair *p, int to)
{
    atomic_fetch_add(&p->bell[to].rung, 1);
    lk__futex_wake(&p->bell[to].rung);
}

static void bare_await(struct pair *p, int me, uint32_t until)
{
    for (uint32_t now; (now = atomic_load(&p->bell[me].rung)) < until;)
        lk__futex_wait(&p->bell[me].rung, now, 1000000000);
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

static void a_message_wakes_its_receiver(lk_comm *comm)
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

RANKS_MAIN(TEST(a_message_wakes_its_receiver))
