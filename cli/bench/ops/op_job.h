/* A case of `lockstep bench ops` with its tensors, on a tape of its own.
 *
 * The bench makes one for a case, and one for each copy that runs beside others (--scaling); only one thread
 * at a time runs a job.
 */
#ifndef LK_CLI_BENCH_OP_JOB_H
#define LK_CLI_BENCH_OP_JOB_H

#include "bench/ops/ops.h"

enum { BENCH_OP_MAX_IN = 5 };

/* What is run: forward alone and both; backward is the difference. */
typedef enum bench_op_side { BENCH_SIDE_FORWARD, BENCH_SIDE_BOTH, BENCH_N_SIDES } bench_op_side;

/* An input as ops.h describes it. */
typedef struct bench_op_input {
    lk_shape shape;
    lk_dtype dtype;
    int64_t below; /* integers */
    double lo, hi; /* others */
    bool has_grad;
} bench_op_input;

typedef struct bench_op_job {
    const bench_op *c;
    const lk_op *op;
    const void *attr;
    lk_tape *tape;
    bench_op_input in[BENCH_OP_MAX_IN];
    int n;
    lk_tensor *x[BENCH_OP_MAX_IN], *grad[BENCH_OP_MAX_IN];
    lk_tensor *seed;                    /* NULL: y is one number */
    bool backward;                      /* a gradient flows */
    int64_t bytes[BENCH_OP_MAX_IN + 1]; /* of the inputs and of y, the last */
    double total[BENCH_N_SIDES];        /* sums of absolute values: what was computed */
} bench_op_job;

/** Make the tensors of a case and run it once. */
lk_status bench_op_job_new(const bench_op *c, bench_op_job **out) LK_NODISCARD;

void bench_op_job_free(bench_op_job *j);

/** Run it. */
lk_status bench_op_job_run(bench_op_job *j, bench_op_side side) LK_NODISCARD;

#endif /* LK_CLI_BENCH_OP_JOB_H */
