/* How a rank waits follows from how many share how many cores. */
#include "comm/world.h"
#include "harness.h"

static lk__world paced(int64_t ranks, int64_t cores)
{
    lk__world w = {0};
    lk__wait_pace(&w, ranks, cores);
    return w;
}

static void with_a_core_each_ranks_poll(void)
{
    ASSERT_TRUE(paced(1, 1).spins > 0 && paced(1, 1).yields == 0);
    ASSERT_TRUE(paced(2, 2).spins > 0 && paced(2, 2).yields == 0);
}

static void with_more_ranks_than_cores_they_offer_them(void)
{
    ASSERT_TRUE(paced(3, 2).spins == 0 && paced(3, 2).yields > 0);
    ASSERT_TRUE(paced(16, 2).spins == 0 && paced(16, 2).yields > 0);
}

static void very_many_sleep_at_once(void)
{
    ASSERT_TRUE(paced(17, 2).spins == 0 && paced(17, 2).yields == 0);
}

TEST_MAIN(TEST(with_a_core_each_ranks_poll), TEST(with_more_ranks_than_cores_they_offer_them),
          TEST(very_many_sleep_at_once))
