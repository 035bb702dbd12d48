/* What counts as progress, for triggers of programs and for runs of experiments. */
#include "harness.h"
#include "multinode/patience.h"

static const double none = (double)NAN;

/* Look at values one by one; `without` has what is to come of each. */
static void expect(bool lower, double change, int n, const double *value, const int64_t *without,
                   double want)
{
    double best = none;
    int64_t so_far = 0;
    for (int i = 0; i < n; i++) {
        bool better = lk__patience_update(value[i], lower, change, &best, &so_far);
        ASSERT_EQ(so_far, without[i]);
        ASSERT_EQ(better, without[i] == 0);
    }
    ASSERT_TRUE(best == want || (isnan(best) && isnan(want)));
}

TEST(equal_is_not_better)
{
    const double value[] = {3, 3, 2, 4, 2, 1};
    expect(true, 0, 6, value, (const int64_t[]){0, 1, 0, 1, 2, 0}, 1);
    expect(false, 0, 6, value, (const int64_t[]){0, 1, 2, 0, 1, 2}, 4);
}

TEST(little_is_not_better)
{
    const double value[] = {3, 2.5, 2, 4, 3.5, 1.5};
    expect(true, 1, 6, value, (const int64_t[]){0, 1, 2, 3, 4, 0}, 1.5);
    expect(false, 1, 6, value, (const int64_t[]){0, 1, 2, 3, 4, 5}, 3);
    expect(false, 0.75, 6, value, (const int64_t[]){0, 1, 2, 0, 1, 2}, 4);
}

TEST(a_nan_is_never_better)
{
    expect(true, 0, 4, (const double[]){none, none, 1e300, none}, (const int64_t[]){1, 2, 0, 1},
           1e300);
    expect(false, 0, 2, (const double[]){none, none}, (const int64_t[]){1, 2}, none);
}
