/* Rounds of a bench on ranks, in which each side has its turn. */
#ifndef LK_CLI_BENCH_ROUNDS_H
#define LK_CLI_BENCH_ROUNDS_H

#include "bench/stats.h"

#include <lockstep/comm.h>

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

#endif /* LK_CLI_BENCH_ROUNDS_H */
