/* Clocks: time goes forward, and only work uses a thread's own time. */
#include "harness.h"

#include <lockstep/extra/clock.h>

#include <time.h>

static const int64_t ms = 1000000;

TEST(time_never_goes_back)
{
    int64_t last = lk_clock_ns();
    for (int i = 0; i < 10000; i++) {
        int64_t now = lk_clock_ns();
        ASSERT_TRUE(now >= last);
        last = now;
    }
}

TEST(sleeping_takes_time_but_no_processor_time)
{
    int64_t wall = lk_clock_ns(), used = lk_clock_thread_ns();
    struct timespec t = {0, 30 * ms};
    while (nanosleep(&t, &t) != 0)
        ;
    ASSERT_TRUE(lk_clock_ns() - wall >= 30 * ms);
    ASSERT_TRUE(lk_clock_thread_ns() - used < 20 * ms);
}

TEST(working_takes_processor_time)
{
    int64_t used = lk_clock_thread_ns();
    while (lk_clock_thread_ns() - used < 5 * ms)
        ;
}
