/* How much faster several threads are, and how much faster they could be. */
#ifndef LK_CLI_BENCH_SCALING_H
#define LK_CLI_BENCH_SCALING_H

#include "bench/stats.h"

#include <lockstep/status.h>

/* For --help of benches that have --scaling. */
#define BENCH_SCALING_ABOUT                                                                        \
    "With --scaling, the columns are: what one thread and what N threads take or reach; speedup, " \
    "of N threads over one; N copies, that of as many copies with one thread each, side by side, " \
    "over one alone; of copies, the first by the second. "

/* Of --threads 1: one thread beside itself. */
#define BENCH_SCALING_REFUSAL \
    "--scaling compares several threads with one, so give 2 or more, or leave --scaling out"

typedef struct bench_scaling {
    int rounds;
    bench_figure one, many; /* seconds for a call with one thread and with all of them */
    bench_figure speedup;   /* one / many */
    bench_figure limit; /* what as many copies with one thread each reach together, side by side */
    bench_figure share; /* speedup / limit */
} bench_scaling;

/** What is measured, once, on memory of the copy's own. */
typedef lk_status bench_scaled_fn(void *copy);

/**
 * Measure copy[0] with one thread and with `threads`, in turn, and all of copy[threads] side by side, for
 * `seconds` at least; all figures are medians.  From the main thread; the library then has 1 thread.
 */
lk_status bench_scaling_run(bench_scaled_fn *fn, void *const *copy, int threads, double seconds,
                            bench_scaling *r) LK_NODISCARD;

#endif /* LK_CLI_BENCH_SCALING_H */
