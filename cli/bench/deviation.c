/* The largest difference of two results. fmax() and comparisons drop NaN, so it is looked for before. */
#include "bench/deviation.h"

#include <math.h>

static double element(lk_dtype dtype, const void *v, int64_t i)
{
    return dtype == LK_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

double bench_deviation(lk_dtype dtype, const void *ours, const void *theirs, int64_t n)
{
    double most = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = element(dtype, ours, i), difference = fabs(a - element(dtype, theirs, i));
        if (!isfinite(difference))
            return (double)INFINITY;
        most = fmax(most, difference);
        largest = fmax(largest, fabs(a));
    }
    return largest > 0 ? most / largest : most;
}
