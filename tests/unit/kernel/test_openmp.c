/* The pool inside a host program that has its own OpenMP threads. */
#include "harness.h"

#ifdef _OPENMP

#    include <lockstep/extra/reduce.h>
#    include <lockstep/thread.h>

#    include <omp.h>
#    include <sched.h>

enum { N = 40000, REPEATS = 200 };

static float x[N];

/* A sum that the pool splits into runs of pieces. */
static float sum_of_x(void)
{
    float sum = NAN;
    lk_reduce_axis_shape s = {1, N, 1, 100};
    if (lk_reduce_axis(LK_F32, LK_REDUCE_AXIS_SUM, &s, x, &sum) != LK_OK)
        lk_error_print(stderr);
    return sum;
}

static float expected_sum(void)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(i * 7919 % 1009) * 0.37F - 3;
    ASSERT_OK(lk_threads_set(1));
    return sum_of_x();
}

TEST(openmp_threads_call_kernels_at_once)
{
    float expected = expected_sum();
    for (int threads = 1; threads <= 4; threads++) {
        int failures = 0, seen = 0;
        ASSERT_OK(lk_threads_set(threads));
#    pragma omp parallel num_threads(4) reduction(+ : failures, seen)
        {
            seen++;
#    pragma omp for
            for (int i = 0; i < REPEATS; i++)
                failures += sum_of_x() != expected;
        }
        ASSERT_EQ(failures, 0);
        ASSERT_EQ(seen, 4);
    }
}

TEST(kernels_and_openmp_regions_take_turns)
{
    float expected = expected_sum();
    ASSERT_OK(lk_threads_set(3));
    for (int i = 0; i < REPEATS; i++) {
        int sum = 0;
        ASSERT_TRUE(sum_of_x() == expected);
#    pragma omp parallel for num_threads(3) reduction(+ : sum)
        for (int j = 0; j < 1000; j++)
            sum += j;
        ASSERT_EQ(sum, 499500);
    }
}

TEST(the_host_keeps_its_threads_and_its_affinity)
{
    cpu_set_t before, after;
    int threads = omp_get_max_threads();
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    ASSERT_OK(lk_threads_set(2));
    ASSERT_TRUE(!isnan(sum_of_x()));
    lk_threads_stop();
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    ASSERT_TRUE(CPU_EQUAL(&before, &after));
    ASSERT_EQ(omp_get_max_threads(), threads);
}

#else

int main(void)
{
    puts("skipped: this compiler has no OpenMP");
    return 77;
}

#endif
