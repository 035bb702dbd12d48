/* The two clocks that the library measures durations with: of the system, monotonic, and of the
 * calling thread's processor time. */
#include <lockstep/extra/clock.h>

#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec t = {0, 0};
    clock_gettime(id, &t); /* fails only for a clock that does not exist */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t lk_clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t lk_clock_thread_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}
