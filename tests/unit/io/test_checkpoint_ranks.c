/* Checkpoints of ranks that hold boxes, on a disk and in memory that fail; tests/long has all of it. */
#include "checkpoint_ranks.h"

static void what_was_acknowledged_survives_kills(void)
{
    kills(4);
}

static void the_latest_is_there_after_kills(void)
{
    kills_between_names();
}

static void allocations_of_any_rank_may_fail(void)
{
    allocations_fail(23);
}

static void what_was_acknowledged_survives_a_power_cut(void)
{
    power_cuts(4);
}

TEST_MAIN(TEST(what_was_acknowledged_survives_kills), TEST(the_latest_is_there_after_kills),
          TEST(allocations_of_any_rank_may_fail), TEST(what_was_acknowledged_survives_a_power_cut))
