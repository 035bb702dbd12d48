/* What `lockstep bench allreduce` measures besides the bare collective, and the rounds in which all of it is
 * measured. */
#ifndef LK_CLI_BENCH_ALLREDUCE_H
#define LK_CLI_BENCH_ALLREDUCE_H

#include "bench/stats.h"

#include <lockstep/comm.h>

typedef struct bench_allreduce_setting {
    const int64_t *bytes; /* sizes of the vector */
    int n_sizes;
    int64_t tensors; /* that it is cut into, for bench_allreduce_tensors() */
    double seconds;  /* for each size, both sides together */
    bool json;
} bench_allreduce_setting;

/** What recording costs: the node of the tape next to the bare collective.  Rank 0 prints a row for each
 * size.  Collective. */
lk_status bench_allreduce_tape(lk_comm *comm, const bench_allreduce_setting *s) LK_NODISCARD;

/** What many calls cost: one lk_ddl_allreduce_n() next to an lk_ddl_allreduce() for each tensor.  Rank 0
 * prints a row for each size.  Collective. */
lk_status bench_allreduce_tensors(lk_comm *comm, const bench_allreduce_setting *s) LK_NODISCARD;

enum { BENCH_MAX_SIDES = 4 };

/** What each side took in each round. */
typedef struct bench_rounds {
    int n;
    double seconds[BENCH_MAX_SIDES][BENCH_MAX_ROUNDS];
} bench_rounds;

/** One turn of a side: its seconds, of the slowest rank.  Collective. */
typedef lk_status bench_turn(void *arg, int side, double *seconds);

/**
 * Rounds until `seconds` have passed, with another side first each time; one before them does not count.
 * Collective: all ranks do as many, which rank 0 decides.
 */
lk_status bench_rounds_run(lk_comm *comm, int sides, double seconds, bench_turn *turn, void *arg,
                           bench_rounds *out) LK_NODISCARD;

#endif /* LK_CLI_BENCH_ALLREDUCE_H */
