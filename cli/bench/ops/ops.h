/* The cases of `lockstep bench ops`: every op that is built in, at sizes in and out of the caches.
 *
 * A case is one application of an op to leaves and constants of f32, forward, and backward into the
 * gradients of the leaves; cases.c has the table.  Its texts are read here and by PyTorch's script,
 * so that both compute the same:
 *
 *     in      inputs, apart by blanks: sizes such as 2048x512, and marks behind them
 *             +    values from 0.5 to 1.5, not from -2 to 2
 *             c    a constant: no gradient
 *             iN   i64 below N, a constant
 *             m    a mask: u8 (of PyTorch bool) of 0 and 1, a constant
 *             n, w, t   of PyTorch: images with channels last; weights of a convolution, and of a linear
 *                       layer, in its own order of axes
 *     torch   an expression of the inputs a, b, c...
 *     forward, backward   the arrays that an ideal implementation reads or writes, each once: inputs (or
 *             their gradients) a, b, c... and y, the output (or its gradient).  "": a view
 */
#ifndef LK_CLI_BENCH_OPS_H
#define LK_CLI_BENCH_OPS_H

#include "bench/peers/torch.h"
#include "bench/scaling.h"

#include <lockstep/op.h>

typedef struct bench_op {
    const char *op;   /* as `lockstep list ops` has it */
    const char *size; /* in the name of the case; NULL: the sizes of the first input */
    const char *in;
    const void *attr;  /* of the op; NULL: zeros */
    const char *torch; /* NULL: PyTorch has no such op */
    const char *forward, *backward;
    double flop; /* forward; backward has twice as many.  0: memory is the limit */
    unsigned flags;
} bench_op;

enum {
    BENCH_OP_COPIED = 1, /* the op gives a view, which is copied */
    BENCH_OP_RANDOM = 2  /* two libraries draw different numbers */
};

/** All of them; the last has no op. */
extern const bench_op bench_op_cases[];

typedef enum bench_op_pass {
    BENCH_OP_FORWARD,
    BENCH_OP_BACKWARD, /* the difference of the others */
    BENCH_OP_BOTH,
    BENCH_N_OP_PASSES
} bench_op_pass;

enum { BENCH_OP_NAME = 64 };

/** "forward", "backward" and "both". */
const char *bench_op_pass_name(bench_op_pass pass);

/** The name of a case, such as "relu 1M", in `buf` of BENCH_OP_NAME bytes; returns `buf`. */
const char *bench_op_name(const bench_op *c, char *buf);

/** The name with a pass, such as "relu 1M forward". */
const char *bench_op_pass_of(const bench_op *c, bench_op_pass pass, char *buf);

/** What a pass took, of a median round. */
typedef struct bench_op_result {
    bool done[BENCH_N_OP_PASSES];            /* no gradient flows through some ops */
    bench_figure seconds[BENCH_N_OP_PASSES]; /* of one run */
    bench_figure theirs[BENCH_N_OP_PASSES];  /* PyTorch's */
    bench_figure ratio[BENCH_N_OP_PASSES];   /* PyTorch's time / ours */
    double gbytes[BENCH_N_OP_PASSES];        /* that an ideal implementation moves, */
    double written[BENCH_N_OP_PASSES];       /* and of these those that it writes */
    double values, footprint;                /* bytes of all values, and of gradients too */
    int rounds;
} bench_op_result;

/**
 * Measure a case for `seconds` at least, in turns with `torch`, NULL: alone.  One thread is timed by its
 * processor time, more by the clock.
 *
 * Errors: LK_EINVAL when PyTorch computes something else, LK_EIO when it ends; those of the op.
 */
lk_status bench_op_run(const bench_op *c, int threads, double seconds, bench_torch *torch,
                       bench_op_result *out) LK_NODISCARD;

/** How a case scales. */
typedef struct bench_op_scaling {
    bench_scaling
        pass[BENCH_N_OP_PASSES]; /* of backward, and of what a case does not have, no rounds */
    double footprint;            /* as above */
} bench_op_scaling;

/** Measure a case with one thread, with `threads`, and as so many copies, `seconds` for each pass. */
lk_status bench_op_scale(const bench_op *c, int threads, double seconds,
                         bench_op_scaling *out) LK_NODISCARD;

#endif /* LK_CLI_BENCH_OPS_H */
