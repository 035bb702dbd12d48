/* The results of peers: how far they are from ours, and that those of no number are far. */
#include "bench/deviation.h"
#include "harness.h"

#include <math.h>

enum { N = 5 };

TEST(a_deviation_is_a_fraction_of_our_largest)
{
    const double ours[N] = {1, -8, 2, 0, 4}, theirs[N] = {1, -8, 3, 0, 4};
    const float ours_f32[N] = {1, -8, 2, 0, 4}, theirs_f32[N] = {1, -8, 2, 0, 6};
    ASSERT_TRUE(bench_deviation(LK_F64, ours, ours, N) == 0);
    ASSERT_TRUE(bench_deviation(LK_F64, ours, theirs, N) == 0.125);
    ASSERT_TRUE(bench_deviation(LK_F32, ours_f32, theirs_f32, N) == 0.25);
}

TEST(of_zeros_it_is_the_difference_itself)
{
    const double zeros[N] = {0}, theirs[N] = {0, 0, 3, 0, 0};
    ASSERT_TRUE(bench_deviation(LK_F64, zeros, zeros, N) == 0);
    ASSERT_TRUE(bench_deviation(LK_F64, zeros, theirs, N) == 3);
}

/* Wherever it is, and whatever follows. */
TEST(what_is_not_finite_on_either_side_is_infinitely_far)
{
    const double odd[] = {(double)NAN, (double)INFINITY, (double)-INFINITY};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N; i++) {
            const double well[N] = {1, 2, 3, 4, 5};
            double v[N] = {1, 2, 3, 4, 5};
            v[i] = odd[k];
            ASSERT_TRUE(isinf(bench_deviation(LK_F64, well, v, N)));
            ASSERT_TRUE(isinf(bench_deviation(LK_F64, v, well, N)));
            ASSERT_TRUE(isinf(bench_deviation(LK_F64, v, v, N)));
        }
}
