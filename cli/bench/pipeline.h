/* Training of a perceptron of equal layers in two stages, by each schedule, and on one rank with two threads, in
 * turns.
 *
 * `lockstep bench pipeline` measures a case with it; the ranks are two threads of this process, a stage each.
 */
#ifndef LK_CLI_BENCH_PIPELINE_H
#define LK_CLI_BENCH_PIPELINE_H

#include "bench/stats.h"

#include <lockstep/comm.h>
#include <lockstep/extra/pipeline.h>

enum { PIPELINE_STAGES = 2, PIPELINE_LAYERS = 8 };

/* Everybody who has a turn: schedules by their number, those of LK_PIPELINE_CHOICES, and one rank. */
enum {
    PIPELINE_SCHEDULES = LK_PIPELINE_FORWARD,
    PIPELINE_THREADS = PIPELINE_SCHEDULES,
    PIPELINE_SIDES
};

typedef struct pipeline_case {
    int64_t width, batch;
    int64_t microbatches; /* of the batch, which it divides */
    double seconds;       /* all together */
} pipeline_case;

/* The computations of a stage, one of a kind, by lk_action_kind. */
enum { PIPELINE_KINDS = LK_ACTION_SEND };

/** A schedule: times are those of a step, by the clock. */
typedef struct pipeline_figures {
    bench_figure seconds;  /* of a step */
    bench_figure ratio;    /* that of one rank with two threads / seconds */
    bench_figure actions;  /* from the first action of a stage to the last */
    bench_figure bound;    /* the critical path that the times of actions give, and the update */
    bench_figure of_bound; /* bound / seconds */
    bench_figure bubble;   /* (actions - what the busiest stage computes) / that */
    bench_figure by_times; /* the same of the critical path */
    double by_count;       /* and of equal times */
    bench_figure action[PIPELINE_STAGES][PIPELINE_KINDS]; /* seconds of one; not all are measured */
    bench_figure update[PIPELINE_STAGES];
} pipeline_figures;

typedef struct pipeline_results {
    int rounds;
    bench_figure threads; /* seconds of a step on one rank */
    pipeline_figures schedule[PIPELINE_SCHEDULES];
} pipeline_results;

/** Measure a case.  Collective over PIPELINE_STAGES local ranks; results are rank 0's. */
lk_status pipeline_measure(lk_comm *comm, const pipeline_case *c,
                           pipeline_results *out) LK_NODISCARD;

/** The critical path and the bubble of a schedule, zb1p with its largest lag, whose stages take these times;
 * `path` may be NULL. */
lk_status pipeline_compute(lk_pipeline_kind kind, int stages, int64_t microbatches,
                           const lk_stage_times *each, int64_t *path, double *bubble) LK_NODISCARD;

/** The same bubble if forward and each half of backward take equal times on all stages. */
lk_status pipeline_count(lk_pipeline_kind kind, int stages, int64_t microbatches,
                         double *bubble) LK_NODISCARD;

#endif /* LK_CLI_BENCH_PIPELINE_H */
