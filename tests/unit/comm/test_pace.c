/* How a rank waits follows from how many share how many cores. */
#include "comm/comm.h"
#include "harness.h"

#include <lockstep/extra/alloc.h>

static lk__world paced(int64_t ranks, int64_t cores)
{
    lk__world w = {0};
    lk__wait_pace(&w, ranks, cores);
    return w;
}

TEST(with_a_core_each_ranks_poll)
{
    ASSERT_TRUE(paced(1, 1).spins > 0 && paced(1, 1).yields == 0);
    ASSERT_TRUE(paced(2, 2).spins > 0 && paced(2, 2).yields == 0);
}

TEST(with_more_ranks_than_cores_they_offer_them)
{
    ASSERT_TRUE(paced(3, 2).spins == 0 && paced(3, 2).yields > 0);
    ASSERT_TRUE(paced(16, 2).spins == 0 && paced(16, 2).yields > 0);
}

TEST(very_many_sleep_at_once)
{
    ASSERT_TRUE(paced(17, 2).spins == 0 && paced(17, 2).yields == 0);
}

static int n_polls;
static const lk__transport *quick;

/* As where another program has the core in between. */
static lk_status slow_poll(lk__world *w)
{
    n_polls++;
    usleep(2000);
    return quick->poll(w);
}

/* Naps are longer than polls: there are few polls until the deadline, and the first look at the clock
 * does not come after it. */
TEST(a_rank_whose_polls_take_long_naps)
{
    lk_comm *comm;
    float x;
    ASSERT_OK(lk_comm_open("self", &comm));
    quick = comm->w->transport;
    lk__transport slow = *quick;
    slow.poll = slow_poll;
    comm->w->transport = &slow;
    ASSERT_OK(lk_comm_set_deadline(comm, 0.2));
    ASSERT_TRUE(comm->w->spins > 256);
    ASSERT_EQ(lk_recv(comm, &x, 1, LK_F32, 0, 7, "never", NULL), LK_ESTALL);
    ASSERT_TRUE(n_polls < 64);
    comm->w->transport = quick;
    lk_comm_close(comm);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
