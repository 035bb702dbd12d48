/* A run after a power cut at any point: what a status has acknowledged is there, and what goes on ends
 * as if nothing had happened.  tests/long has more of it. */
#include "train_crash.h"

TEST(a_run_survives_a_power_cut)
{
    crash_a_run(12, 40);
}
