/* The shapes that `lockstep bench kernels` measures, what they compute with, and our way of computing them. */
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

enum { BENCH_MAX_OUT = 5 };

/* Operands of a case.  Everybody who computes it has an output of his own; ours is the first. */
typedef struct bench_operands {
    const bench_case *c;
    lk_conv_plan *plan;   /* convolutions */
    void *first, *second; /* gemm: A, B; convolution: x or dy, w or dy */
    void *bias;           /* convolution, forward */
    void *out[BENCH_MAX_OUT];
    int64_t n_out;
} bench_operands;

/** Make operands with `n_out` outputs; `o` is all zero before.  Release also after a failure. */
lk_status bench_operands_fill(bench_operands *o, const bench_case *c, int n_out) LK_NODISCARD;

void bench_operands_free(bench_operands *o);

/** Compute the case once. */
lk_status bench_operands_run(const bench_operands *o) LK_NODISCARD;

#endif /* LK_CLI_BENCH_CASE_H */
