/* What rounds of measurements say: figures, each with its noise.
 *
 * A figure is a median over rounds, in which everybody is timed once, or is computed from such medians.
 * Its noise is by how much that median may be off: what two sides took is compared within a round, so
 * that a machine that is slow for a while is so for both, and how far the rounds then lie apart is the
 * noise.  Where it is as large as the figure, nothing is known, and nothing is printed.
 */
#ifndef LK_CLI_BENCH_STATS_H
#define LK_CLI_BENCH_STATS_H

#include "report.h"

/* For --help of each bench. */
#define BENCH_NOISE_ABOUT                                                                          \
    "Each figure is a median over rounds. Behind +- is its noise, by which it may be off: three "  \
    "times the distance of the quartiles of the rounds, by the root of their number (25 at most)." \
    " What is not above its noise, or computed from such, is not known: a dash in the table, "     \
    "null in JSON, where KEY_noise is the noise of KEY, in the same unit. Means are over what is " \
    "known.\n"

/* How many rounds a bench has: fewer say nothing of their noise. */
enum { BENCH_MIN_ROUNDS = 7, BENCH_MAX_ROUNDS = 400 };

/** Seconds of the clock; and whether another round comes behind `n`: up to the least, and then, up to the most,
 * while the clock is before `end`. */
double bench_now(void);
bool bench_goes_on(int n, double end);

/** All zero: it was not measured. */
typedef struct bench_figure {
    bool measured;
    double value; /* NaN: computed of what is not known */
    double noise; /* in the same unit, 0 or more; infinite: that too is not known */
} bench_figure;

/** Whether the figure is above its noise. */
bool bench_known(bench_figure f);

/** Whether it is known to be at least `least`. */
bool bench_at_least(bench_figure f, double least);

/**
 * The median of n values, 1 to BENCH_MAX_ROUNDS.
 *
 * Its noise is three times the distance of the quartiles, divided by the root of n: of two sides that
 * take the same time, a difference is known once in fifty times with 7 rounds, in 200 with 25.  Rounds
 * that follow each other are alike, so more count as 25.
 */
bench_figure bench_median(const double *v, int n);

/** The median of a[i] - b[i]. */
bench_figure bench_difference(const double *a, const double *b, int n);

/** The median of a[i] / b[i]. */
bench_figure bench_ratio(const double *a, const double *b, int n);

/** factor times f, for factor > 0. */
bench_figure bench_scaled(double factor, bench_figure f);

/** The quotient of two figures of different rounds or of differences: known only if both are. */
bench_figure bench_quotient(bench_figure a, bench_figure b);

/** The larger of two figures; the known one where one is not. */
bench_figure bench_larger(bench_figure a, bench_figure b);

/** p a + q b of two figures of different rounds: known only if both are. */
bench_figure bench_combined(double p, bench_figure a, double q, bench_figure b);

/** `work` by the time `f`: as well known as that. */
bench_figure bench_rate(double work, bench_figure f);

/** A geometric mean of those of some figures that are known. */
typedef struct bench_mean {
    int n, of; /* known figures, and all */
    double log_sum, variance;
} bench_mean;

void bench_mean_add(bench_mean *m, bench_figure f);

/** The mean; not measured where there was no figure, not known where none of them is. */
bench_figure bench_mean_value(const bench_mean *m);

/** A figure in a report: one that is not known is a dash, and null in JSON; one that was not measured is
 * left out there. */
report_cell cell_figure(bench_figure f, int decimals);

#endif /* LK_CLI_BENCH_STATS_H */
