/* As tests/unit/train/test_crash.c, with more states of each point, and all of them gone on from. */
#include "train_crash.h"

TEST(a_run_survives_a_power_cut_in_any_state)
{
    alarm(3600);
    crash_a_run(512, 0);
}
