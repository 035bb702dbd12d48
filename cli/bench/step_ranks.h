/* Training steps of several sides in turn: all ranks in each mode, rank 0 alone, rank 0 alone with the
 * threads of all, all ranks apart, each with whole batches of its own, and PyTorch.
 *
 *     round    barrier | canonical | barrier | fast | barrier | alone | barrier | threaded | barrier | ...
 *
 * In the turns of one rank and of PyTorch the others sleep.  On several ranks time is that of the
 * clock, on the slowest rank; ratios are taken within a round, and of those the median.  What ranks
 * that do not wait for each other lose, the machine has not got.
 */
#ifndef LK_CLI_BENCH_STEP_RANKS_H
#define LK_CLI_BENCH_STEP_RANKS_H

#include "bench/peers/torch.h"
#include "bench/stats.h"

#include <lockstep/train.h>

/* Our sides: the modes, numbered as lk_reduction_mode is, and if there are several ranks, one of them alone,
 * the same with as many threads as all ranks have, and all of them apart. */
enum {
    STEP_CANONICAL,
    STEP_FAST,
    STEP_MODES,
    STEP_ALONE = STEP_MODES,
    STEP_THREADED,
    STEP_APART,
    STEP_OURS
};
enum { STEP_PEERS = 2, STEP_SIDES = STEP_OURS + STEP_PEERS };

typedef struct step_bench {
    lk_comm *comm;
    double seconds;                /* for a case, everybody together */
    int threads;                   /* of each rank */
    bool processor_time;           /* of this process, not the clock's: one rank, one thread */
    bool on[STEP_MODES];           /* which modes are measured */
    bench_torch peer[STEP_PEERS];  /* on rank 0 */
    const char *peers[STEP_PEERS]; /* their names, on all ranks */
    int n_peers;
} step_bench;

/* Parts of a step; STEP_REST is what is none of the others. */
typedef enum step_part {
    STEP_DATA,
    STEP_FORWARD,
    STEP_BACKWARD,
    STEP_WAIT,
    STEP_EXCHANGE,
    STEP_UPDATE,
    STEP_REST,
    STEP_PARTS
} step_part;

typedef struct step_figures {
    int rounds;
    double samples;                             /* of a step */
    bench_figure seconds[STEP_SIDES];           /* of a step: ours, then the peers */
    bench_figure share[STEP_MODES][STEP_PARTS]; /* of the steps' time on this rank */
    bench_figure ratio[STEP_MODES][STEP_PEERS]; /* the peer's time / ours */
    bench_figure efficiency[STEP_MODES];        /* time alone / (ranks x time together) */
    bench_figure threaded[STEP_MODES];          /* time with all threads on one rank / together */
    bench_figure limit;                         /* time alone / time apart */
    bench_figure price;                         /* time of canonical / time of fast */
} step_figures;

/**
 * Give each rank its own core, and all threads that it starts from now on: if it computes with one
 * thread and there are cores for all ranks of the node.
 */
void step_bind(const lk_comm *comm);

/** Measure an experiment; `request` is that to PyTorch, NULL: no peers.  Collective. */
lk_status step_measure(step_bench *b, const lk_experiment *experiment, const char *request,
                       step_figures *out) LK_NODISCARD;

#endif /* LK_CLI_BENCH_STEP_RANKS_H */
