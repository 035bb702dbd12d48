/* What `lockstep bench allreduce` measures besides the bare collective. */
#ifndef LK_CLI_BENCH_ALLREDUCE_H
#define LK_CLI_BENCH_ALLREDUCE_H

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

#endif /* LK_CLI_BENCH_ALLREDUCE_H */
