/* As tests/unit/io/test_checkpoint_ranks.c, with every call and every allocation. */
#include "checkpoint_ranks.h"

static void what_was_acknowledged_survives_a_kill_at_any_call(void)
{
    alarm(3600);
    kills(1);
}

static void every_allocation_of_any_rank_may_fail(void)
{
    alarm(3600);
    allocations_fail(1);
}

static void what_was_acknowledged_survives_a_power_cut_in_any_state(void)
{
    alarm(3600);
    power_cuts(256);
}

TEST_MAIN(TEST(what_was_acknowledged_survives_a_kill_at_any_call),
          TEST(every_allocation_of_any_rank_may_fail),
          TEST(what_was_acknowledged_survives_a_power_cut_in_any_state))
