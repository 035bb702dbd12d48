/* What recording an allreduce costs: the node of the tape next to the bare collective. */
#ifndef LK_CLI_BENCH_ALLREDUCE_TAPE_H
#define LK_CLI_BENCH_ALLREDUCE_TAPE_H

#include <lockstep/comm.h>

typedef struct bench_tape_setting {
    const int64_t *bytes; /* sizes of the vector */
    int n_sizes;
    double seconds; /* for each size, both together */
    bool json;
} bench_tape_setting;

/** Measure and, on rank 0, print a row for each size.  Collective. */
lk_status bench_allreduce_tape(lk_comm *comm, const bench_tape_setting *s) LK_NODISCARD;

#endif /* LK_CLI_BENCH_ALLREDUCE_TAPE_H */
