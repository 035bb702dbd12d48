/* How much faster several threads are, and how much faster they could be. */
#ifndef LK_CLI_BENCH_SCALING_H
#define LK_CLI_BENCH_SCALING_H

#include "bench_run.h"

typedef struct bench_scaling {
    int rounds;
    bench_figure one, many; /* seconds for a call with one thread and with all of them */
    bench_figure speedup;   /* one / many */
    bench_figure limit; /* what as many copies with one thread each, side by side, reach together */
} bench_scaling;

/** Measure a case with one thread and with s->threads, in turn; all figures are medians. */
lk_status bench_scaling_run(const bench_case *c, const bench_setting *s,
                            bench_scaling *r) LK_NODISCARD;

#endif /* LK_CLI_BENCH_SCALING_H */
