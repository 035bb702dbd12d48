/* What the cases of `lockstep bench kernels` come to, by group and pass. */
#ifndef LK_CLI_BENCH_SUMMARY_H
#define LK_CLI_BENCH_SUMMARY_H

#include "bench_case.h"
#include "bench_stats.h"

/* Ratios or speedups, gathered for one group and pass. */
typedef struct bench_tally {
    bench_mean mean;
    bench_figure lowest; /* of those that are known */
    char lowest_case[BENCH_NAME];
} bench_tally;

typedef struct bench_summary {
    bench_tally tally[BENCH_N_GROUPS][LK_N_PEER_PASSES];
} bench_summary;

void bench_summary_add(bench_summary *s, const bench_case *c, bench_figure f);

/** Print a row for each pass that has cases, behind what was printed before; nothing if none has. */
void bench_summary_print(const bench_summary *s, const char *title, bool json);

#endif /* LK_CLI_BENCH_SUMMARY_H */
