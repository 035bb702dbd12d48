/* What a bench printed with --json, read again: for each case its name and the figure that says how fast it
 * was.  For `lockstep bench compare`. */
#ifndef LK_CLI_BENCH_RESULTS_H
#define LK_CLI_BENCH_RESULTS_H

#include "bench/stats.h"

/** A case of a file. */
typedef struct bench_recorded {
    const char *
        name; /* with what else tells it from others, such as "mlp-100 b100 sgd, canonical, 2 ranks" */
    const char *unit;
    bool is_rate; /* more is faster; otherwise less is */
    bench_figure figure;
    struct bench_recorded *next;
} bench_recorded;

/** The cases of a file, in its order; one that is there for each of several peers counts once. */
typedef struct bench_results {
    const char *path;
    bench_recorded *first;
    int n;
} bench_results;

/** Read a file; rows without a case, limits and summaries, are passed over.  False after a message.  All is
 * in the arena. */
bool bench_results_read(const char *path, lk_arena *arena, bench_results *out);

/** The case of this name, or NULL. */
const bench_recorded *bench_results_find(const bench_results *r, const char *name);

#endif /* LK_CLI_BENCH_RESULTS_H */
