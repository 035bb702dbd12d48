/* As tests/unit/io/test_checkpoint_ranks.c, with every call and every allocation. */
#include "checkpoint_ranks.h"

TEST(what_was_acknowledged_survives_a_kill_at_any_call)
{
    alarm(3600);
    kills(1);
}

TEST(every_allocation_of_any_rank_may_fail)
{
    alarm(3600);
    allocations_fail(1);
}

TEST(what_was_acknowledged_survives_a_power_cut_in_any_state)
{
    alarm(3600);
    power_cuts(256);
}
