/* Checkpoints of ranks that hold boxes, on a disk and in memory that fail; tests/long has all of it. */
#include "checkpoint_ranks.h"

TEST(what_was_acknowledged_survives_kills)
{
    kills(4);
}

TEST(the_latest_is_there_after_kills)
{
    kills_between_names();
}

TEST(allocations_of_any_rank_may_fail)
{
    allocations_fail(23);
}

TEST(what_was_acknowledged_survives_a_power_cut)
{
    power_cuts(4);
}
