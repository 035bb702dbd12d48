/* The pool inside a host program that has its own OpenMP threads. */
#include "harness.h"

#ifdef _OPENMP

#    include "kernel/isa.h"
#    include "kernel/parallel.h"

#    include <omp.h>
#    include <sched.h>
#    include <stdbool.h>

enum { N = 1000, REPEATS = 200 };

static void square(void *arg, int64_t first, int64_t last)
{
    int64_t *v = arg;
    for (int64_t i = first; i < last; i++)
        v[i] = i * i;
}

static bool kernel_works(void)
{
    int64_t v[N] = {0};
    if (lk__parallel(N, 10, square, v) != LK_OK)
        return false;
    for (int64_t i = 0; i < N; i++)
        if (v[i] != i * i)
            return false;
    return true;
}

static void openmp_threads_call_kernels_at_once(void)
{
    for (int threads = 1; threads <= 4; threads++) {
        int failures = 0, seen = 0;
        ASSERT_OK(lk_threads_set(threads));
#    pragma omp parallel num_threads(4) reduction(+ : failures, seen)
        {
            seen++;
#    pragma omp for
            for (int i = 0; i < REPEATS; i++)
                failures += !kernel_works();
        }
        ASSERT_EQ(failures, 0);
        ASSERT_EQ(seen, 4);
    }
}

static void kernels_and_openmp_regions_take_turns(void)
{
    ASSERT_OK(lk_threads_set(3));
    for (int i = 0; i < REPEATS; i++) {
        int sum = 0;
        ASSERT_TRUE(kernel_works());
#    pragma omp parallel for num_threads(3) reduction(+ : sum)
        for (int j = 0; j < N; j++)
            sum += j;
        ASSERT_EQ(sum, N * (N - 1) / 2);
    }
}

static void the_host_keeps_its_threads_and_its_affinity(void)
{
    cpu_set_t before, after;
    int threads = omp_get_max_threads();
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    ASSERT_OK(lk_threads_set(2));
    ASSERT_TRUE(kernel_works());
    lk_threads_stop();
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    ASSERT_TRUE(CPU_EQUAL(&before, &after));
    ASSERT_EQ(omp_get_max_threads(), threads);
}

TEST_MAIN(TEST(openmp_threads_call_kernels_at_once), TEST(kernels_and_openmp_regions_take_turns),
          TEST(the_host_keeps_its_threads_and_its_affinity))

#else

int main(void)
{
    puts("skipped: this compiler has no OpenMP");
    return 77;
}

#endif
