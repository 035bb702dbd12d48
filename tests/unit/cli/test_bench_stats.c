/* Figures of the benches: medians with their noise, and that nothing below its noise is a figure. */
#include "bench/stats.h"
#include "harness.h"

#include <lockstep/rng.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(1, fabs(b));
}

static bench_figure figure(double value, double noise)
{
    return (bench_figure){.measured = true, .value = value, .noise = noise};
}

/* Medians */

TEST(the_median_is_in_the_middle_and_leaves_the_rounds_as_they_are)
{
    const double rounds[] = {9, 1, 5, 3, 7, 11, 13, 10};
    double v[8];
    memcpy(v, rounds, sizeof v);
    ASSERT_TRUE(bench_median(v, 7).value == 7);
    ASSERT_TRUE(bench_median(v, 8).value == 8);
    ASSERT_TRUE(memcmp(v, rounds, sizeof v) == 0);
}

TEST(the_noise_of_a_median_is_by_the_quartiles_and_the_number_of_rounds)
{
    const double v[] = {9, 1, 5, 3, 7, 11, 17, 13, 15}; /* quartiles 5 and 13 */
    ASSERT_TRUE(near(bench_median(v, 9).noise, 3 * 8 / sqrt(9)));
    double many[400];
    for (int i = 0; i < 400; i++)
        many[i] = i % 101; /* of 101, the quartiles are 25 and 75 */
    ASSERT_TRUE(near(bench_median(many, 101).noise, 3 * 50 / 5));
    ASSERT_TRUE(bench_median(many, 400).noise > bench_median(many, 101).noise * 0.9);
}

TEST(one_round_that_was_disturbed_does_not_matter)
{
    const double v[] = {5, 5.1, 5000, 4.9, 5, 5.1, 4.9};
    bench_figure f = bench_median(v, 7);
    ASSERT_TRUE(f.value == 5);
    ASSERT_TRUE(f.noise < 0.25);
}

TEST(equal_rounds_have_no_noise)
{
    const double v[] = {2, 2, 2, 2, 2, 2, 2};
    ASSERT_TRUE(bench_median(v, 7).noise == 0);
    ASSERT_TRUE(bench_known(bench_median(v, 7)));
}

TEST(too_few_rounds_are_no_figure)
{
    const double v[] = {2, 2, 2, 2, 2, 2, 2};
    for (int n = 1; n < BENCH_MIN_ROUNDS; n++)
        ASSERT_TRUE(!bench_known(bench_median(v, n)));
    ASSERT_TRUE(bench_known(bench_median(v, BENCH_MIN_ROUNDS)));
}

/* Differences and ratios */

TEST(what_is_slow_in_both_of_a_round_cancels)
{
    const double slow[] = {1, 7, 2, 40, 3, 5, 9}, a[] = {11, 17, 12, 50, 13, 15, 19},
                 b[] = {2, 14, 4, 80, 6, 10, 18};
    bench_figure d = bench_difference(a, slow, 7), r = bench_ratio(b, slow, 7);
    ASSERT_TRUE(d.value == 10 && d.noise == 0);
    ASSERT_TRUE(r.value == 2 && r.noise == 0);
}

TEST(a_difference_below_its_noise_or_zero_is_no_figure)
{
    const double none[] = {100, 100, 100, 100, 100, 100, 100},
                 over[] = {90, 130, 105, 70, 120, 60, 110}, less[] = {90, 91, 92, 93, 94, 95, 96};
    ASSERT_TRUE(bench_difference(over, none, 7).value == 5);
    ASSERT_TRUE(!bench_known(bench_difference(over, none, 7)));
    ASSERT_TRUE(bench_difference(less, none, 7).value == -7);
    ASSERT_TRUE(!bench_known(bench_difference(less, none, 7)));
    ASSERT_TRUE(!bench_known(bench_difference(none, none, 7)));
}

TEST(two_sides_that_take_the_same_rarely_have_a_difference)
{
    enum { TRIES = 2000, ROUNDS = 12 };
    float a[ROUNDS], b[ROUNDS];
    double x[ROUNDS], y[ROUNDS];
    int known = 0;
    lk_rng rng = lk_rng_start(1, "bench", "noise");
    for (int k = 0; k < TRIES; k++) {
        ASSERT_OK(lk_rng_uniform_f32(rng, (lk_rng_at){.sample = k}, ROUNDS, a));
        ASSERT_OK(lk_rng_uniform_f32(rng, (lk_rng_at){.sample = k, .step = 1}, ROUNDS, b));
        for (int i = 0; i < ROUNDS; i++) {
            x[i] = 10 + (double)a[i];
            y[i] = 10 + (double)b[i];
        }
        known += bench_known(bench_difference(x, y, ROUNDS));
    }
    ASSERT_TRUE(known > 0 && known < TRIES / 50);
    for (int i = 0; i < ROUNDS; i++)
        x[i] += 1;
    ASSERT_TRUE(bench_known(bench_difference(x, y, ROUNDS)));
}

TEST(a_quotient_has_the_noise_of_both_and_needs_both)
{
    bench_figure q = bench_quotient(figure(12, 1.2), figure(3, 0.3));
    ASSERT_TRUE(q.value == 4);
    ASSERT_TRUE(near(q.noise, 4 * sqrt(0.02)));
    ASSERT_TRUE(!bench_known(bench_quotient(figure(-163, 20), figure(3, 0.3))));
    ASSERT_TRUE(!bench_known(bench_quotient(figure(12, 1.2), figure(1e-9, 5))));
    ASSERT_TRUE(!bench_known(bench_quotient(figure(10, 9), figure(10, 9)))); /* 1 +- 1.27 */
    ASSERT_TRUE(bench_quotient(figure(12, 13), figure(3, 1)).measured);
    ASSERT_TRUE(!bench_quotient(figure(12, 1), (bench_figure){0}).measured);
}

TEST(the_larger_figure_is_one_that_is_known)
{
    ASSERT_TRUE(bench_larger(figure(10, 1), figure(12, 1)).value == 12);
    ASSERT_TRUE(bench_larger(figure(10, 1), figure(12, 13)).value == 10);
    ASSERT_TRUE(bench_larger(figure(10, 11), figure(3, 1)).value == 3);
    ASSERT_TRUE(bench_larger((bench_figure){0}, figure(3, 1)).value == 3);
}

TEST(two_figures_combined_have_the_noise_of_both_and_need_both)
{
    bench_figure c = bench_combined(2, figure(10, 1.5), -3, figure(4, 1));
    ASSERT_TRUE(c.value == 8);
    ASSERT_TRUE(near(c.noise, sqrt(18)));
    ASSERT_TRUE(!bench_known(bench_combined(1, figure(10, 1), 1, figure(1, 2))));
    ASSERT_TRUE(!bench_known(bench_combined(0, figure(1, 2), 1, figure(10, 1))));
    ASSERT_TRUE(!bench_combined(1, figure(10, 1), 1, (bench_figure){0}).measured);
}

TEST(a_rate_is_as_well_known_as_its_time)
{
    bench_figure r = bench_rate(100, figure(4, 1));
    ASSERT_TRUE(r.value == 25);
    ASSERT_TRUE(near(r.noise, 25.0 / 4));
    ASSERT_TRUE(!bench_known(bench_rate(100, figure(-4, 1))));
    ASSERT_TRUE(!bench_known(bench_rate(100, figure(4, 4))));
    ASSERT_TRUE(near(bench_scaled(3, figure(4, 1)).noise, 3));
}

TEST(a_figure_is_at_least_what_its_noise_leaves)
{
    ASSERT_TRUE(bench_at_least(figure(1.25, 0.25), 1));
    ASSERT_TRUE(!bench_at_least(figure(1.25, 0.5), 1));
    ASSERT_TRUE(!bench_at_least(figure(5, 6), -2));
}

/* Means */

TEST(a_mean_is_over_the_figures_that_are_known)
{
    bench_mean m = {0};
    ASSERT_TRUE(!bench_mean_value(&m).measured);
    bench_mean_add(&m, figure(4426090, 9e9));
    ASSERT_TRUE(bench_mean_value(&m).measured);
    ASSERT_TRUE(!bench_known(bench_mean_value(&m)));
    bench_mean_add(&m, figure(2, 0.2));
    bench_mean_add(&m, figure(-1, 0));
    bench_mean_add(&m, figure(8, 0.8));
    ASSERT_EQ(m.n, 2);
    ASSERT_EQ(m.of, 4);
    ASSERT_TRUE(near(bench_mean_value(&m).value, 4));
    ASSERT_TRUE(near(bench_mean_value(&m).noise, 4 * sqrt(0.02) / 2));
}

/* Reports */

TEST(a_cell_has_no_number_that_is_below_its_noise)
{
    ASSERT_EQ(cell_figure((bench_figure){0}, 2).kind, CELL_NONE);
    ASSERT_TRUE(cell_figure(figure(3, 0.3), 2).real == 3);
    ASSERT_TRUE(cell_figure(figure(3, 0.3), 2).noise == 0.3);
    ASSERT_TRUE(isnan(cell_figure(figure(3, 4), 2).real));
    ASSERT_TRUE(isnan(cell_figure(figure(-163, 4), 2).real));
    ASSERT_TRUE(cell_figure(figure(-163, 4), 2).noise == 4);
}
