/* Measuring a case: ours and the peers in turn, in one process. */
#ifndef LK_CLI_BENCH_RUN_H
#define LK_CLI_BENCH_RUN_H

#include "bench/case.h"
#include "bench/stats.h"

enum { BENCH_MAX_PEERS = 4, BENCH_WHY = 160 };

/* Who takes part, and for how long. */
typedef struct bench_setting {
    lk_dtype dtype;
    int threads;
    double seconds; /* for one case, all together */
    const lk__peer *peer[BENCH_MAX_PEERS];
    int n_peers;
} bench_setting;

typedef struct bench_result {
    int rounds;
    bench_figure seconds; /* ours: median of one call */
    struct {
        bool done;            /* has figures */
        bool wrong;           /* its result differs from ours */
        bench_figure seconds; /* median of one call */
        bench_figure ratio;   /* median over the rounds of its time / ours */
        char why[BENCH_WHY];  /* how it computes; if not done, why not */
    } peer[BENCH_MAX_PEERS];
} bench_result;

/**
 * Measure a case.  Each round times everybody once, calls that are short several times in a row.
 * One thread is timed by its processor time, more by the clock.
 */
lk_status bench_run(const bench_case *c, const bench_setting *s, bench_result *r) LK_NODISCARD;

#endif /* LK_CLI_BENCH_RUN_H */
