/* Medians over rounds, and what is computed of them. */
#include "bench/stats.h"

#include <lockstep/extra/clock.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

double bench_now(void)
{
    return 1e-9 * (double)lk_clock_ns();
}

bool bench_goes_on(int n, double end)
{
    return n < BENCH_MIN_ROUNDS || (n < BENCH_MAX_ROUNDS && bench_now() < end);
}

/* More rounds than this make no figure surer. */
enum { INDEPENDENT_ROUNDS = 25 };

/* The noise of a median, in distances of the quartiles by the root of the number of rounds. */
static const double doubt = 3;

/* The figure of what is computed of others that are not known. */
static bench_figure unknown(bool measured)
{
    return (bench_figure){measured, (double)NAN, (double)INFINITY};
}

bool bench_known(bench_figure f)
{
    return f.measured && isfinite(f.value) && f.value > f.noise;
}

bool bench_at_least(bench_figure f, double least)
{
    return bench_known(f) && f.value - f.noise >= least;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between n sorted values, at the fraction `at` of the way. */
static double quantile(const double *sorted, int n, double at)
{
    double place = at * (n - 1);
    int i = (int)place;
    return i + 1 < n ? sorted[i] + (place - i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

bench_figure bench_median(const double *v, int n)
{
    double sorted[BENCH_MAX_ROUNDS];
    memcpy(sorted, v, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    double apart = quantile(sorted, n, 0.75) - quantile(sorted, n, 0.25);
    int count = n < INDEPENDENT_ROUNDS ? n : INDEPENDENT_ROUNDS;
    return (bench_figure){.measured = true,
                          .value = quantile(sorted, n, 0.5),
                          .noise = n < BENCH_MIN_ROUNDS ? (double)INFINITY
                                                        : doubt * apart / sqrt(count)};
}

bench_figure bench_difference(const double *a, const double *b, int n)
{
    double d[BENCH_MAX_ROUNDS];
    for (int i = 0; i < n; i++)
        d[i] = a[i] - b[i];
    return bench_median(d, n);
}

bench_figure bench_ratio(const double *a, const double *b, int n)
{
    double r[BENCH_MAX_ROUNDS];
    for (int i = 0; i < n; i++)
        r[i] = a[i] / b[i];
    return bench_median(r, n);
}

bench_figure bench_scaled(double factor, bench_figure f)
{
    return (bench_figure){f.measured, factor * f.value, factor * f.noise};
}

/* The noise as a fraction of a known figure. */
static double relative(bench_figure f)
{
    return f.noise / f.value;
}

bench_figure bench_quotient(bench_figure a, bench_figure b)
{
    if (!bench_known(a) || !bench_known(b))
        return unknown(a.measured && b.measured);
    double value = a.value / b.value;
    return (bench_figure){true, value, value * hypot(relative(a), relative(b))};
}

bench_figure bench_larger(bench_figure a, bench_figure b)
{
    return !bench_known(b) || (bench_known(a) && a.value >= b.value) ? a : b;
}

bench_figure bench_combined(double p, bench_figure a, double q, bench_figure b)
{
    if (!bench_known(a) || !bench_known(b))
        return unknown(a.measured && b.measured);
    return (bench_figure){true, p * a.value + q * b.value, hypot(p * a.noise, q * b.noise)};
}

bench_figure bench_rate(double work, bench_figure f)
{
    if (!bench_known(f))
        return unknown(f.measured);
    double value = work / f.value;
    return (bench_figure){true, value, value * relative(f)};
}

void bench_mean_add(bench_mean *m, bench_figure f)
{
    m->of++;
    if (!bench_known(f))
        return;
    m->n++;
    m->log_sum += log(f.value);
    m->variance += relative(f) * relative(f);
}

bench_figure bench_mean_value(const bench_mean *m)
{
    if (m->n == 0)
        return unknown(m->of > 0);
    double value = exp(m->log_sum / m->n);
    return (bench_figure){true, value, value * sqrt(m->variance) / m->n};
}

report_cell cell_figure(bench_figure f, int decimals)
{
    if (!f.measured)
        return cell_none();
    return (report_cell){.kind = CELL_FIGURE,
                         .real = bench_known(f) ? f.value : (double)NAN,
                         .noise = f.noise,
                         .decimals = decimals};
}
