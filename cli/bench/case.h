/* The shapes that `lockstep bench kernels` measures. */
#ifndef LK_CLI_BENCH_CASE_H
#define LK_CLI_BENCH_CASE_H

#include "peer.h"

enum { BENCH_NAME = 64 };

/* Cases that are summed up together. */
typedef enum bench_group {
    BENCH_LINEAR_ONE, /* one row */
    BENCH_LINEAR,     /* 16 rows and more */
    BENCH_CONV,       /* this and what follows are convolutions */
    BENCH_WINOGRAD,   /* by Winograd's algorithm */
    BENCH_N_GROUPS
} bench_group;

typedef struct bench_case {
    char name[BENCH_NAME];
    bench_group group;
    lk__peer_pass pass;
    lk_gemm gemm;       /* linear layers: x [rows][in], w [in][out], y [rows][out] */
    lk_conv_shape conv; /* convolutions */
    double flop;        /* nominal: products with padding count */
} bench_case;

int bench_n_cases(void);

/** Case i in f32; set the dtypes for another. */
void bench_case_get(int i, bench_case *c);

static inline bool bench_is_conv(const bench_case *c)
{
    return c->group >= BENCH_CONV;
}

const char *bench_group_name(bench_group group);
const char *bench_pass_name(lk__peer_pass pass);

#endif /* LK_CLI_BENCH_CASE_H */
