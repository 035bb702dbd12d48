/* What the cases of a bench come to: geometric means over those whose figure is known, and the lowest. */
#ifndef LK_CLI_BENCH_SUMMARY_H
#define LK_CLI_BENCH_SUMMARY_H

#include "bench/case.h"
#include "bench/stats.h"

/* Ratios or speedups of cases that belong together. */
typedef struct bench_tally {
    bench_mean mean;
    bench_figure lowest; /* of those that are known */
    char lowest_case[BENCH_NAME];
} bench_tally;

/** Count a case. */
void bench_tally_add(bench_tally *t, const char *name, bench_figure f);

/** Print a row for each of n tallies that have cases, behind what was printed before; nothing if none has.
 * `name` has their names. */
void bench_tallies_print(const bench_tally *t, const char *const *name, int n, const char *title,
                         bool json);

/* Those of `lockstep bench kernels`, by group and pass. */
typedef struct bench_summary {
    bench_tally tally[BENCH_N_GROUPS][LK_N_PEER_PASSES];
} bench_summary;

void bench_summary_add(bench_summary *s, const bench_case *c, bench_figure f);

/** bench_tallies_print() of all. */
void bench_summary_print(const bench_summary *s, const char *title, bool json);

#endif /* LK_CLI_BENCH_SUMMARY_H */
