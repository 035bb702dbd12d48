/* What a case computes with, and our way of computing it. */
#ifndef LK_CLI_BENCH_OPERANDS_H
#define LK_CLI_BENCH_OPERANDS_H

#include "bench/case.h"

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

#endif /* LK_CLI_BENCH_OPERANDS_H */
