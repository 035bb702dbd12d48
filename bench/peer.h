/* A library to measure against: one module bench/peer_NAME.c, opened at run time.
 *
 * A module defines `const lk__peer lk__peer_NAME` and calls nothing of Lockstep.  A job is one
 * computation on fixed operands: everything that a user of that library would do once per shape
 * happens when the job is made, everything that depends on the operands' values, such as a reorder
 * of the weights, each time it runs.
 */
#ifndef LK_BENCH_PEER_H
#define LK_BENCH_PEER_H

#include <lockstep/extra/conv.h>
#include <lockstep/extra/gemm.h>

/* Raised when this file changes, so that a module of another build is not used. */
enum { LK_PEER_INTERFACE = 2 };

typedef enum lk__peer_pass {
    LK_PEER_FORWARD,
    LK_PEER_BACKWARD_DATA,
    LK_PEER_BACKWARD_WEIGHTS,
    LK_N_PEER_PASSES
} lk__peer_pass;

/* A convolution pass, with the operands it needs; the others are NULL. */
typedef struct lk__peer_conv {
    const lk_conv_shape *shape; /* two spatial axes, dense, one group, complete */
    lk__peer_pass pass;
    void *x, *w, *bias, *y; /* backward passes: dx, dw and dy in place of x, w and y */
} lk__peer_conv;

typedef struct lk__peer_job lk__peer_job;

typedef struct lk__peer {
    int interface; /* LK_PEER_INTERFACE */
    const char *name;
    /* The library's own name and version; valid until the next call. */
    const char *(*about)(void);
    /* The library's own word for the code that it chose for this processor; "" if it does not say. */
    const char *(*path)(void);
    /* Use `n` threads from now on. */
    void (*set_threads)(int n);
    /* Make a job; NULL with the reason in `why` where the library cannot do it.  The operands must
     * outlive the job.  NULL function: the library has no such computation. */
    lk__peer_job *(*gemm_new)(const lk_gemm *g, const void *a, const void *b, void *c,
                              const char **why);
    lk__peer_job *(*conv_new)(const lk__peer_conv *conv, const char **why);
    /* How the library does the job, such as the name of its kernel; "" if unknown. */
    const char *(*job_about)(const lk__peer_job *job);
    bool (*job_run)(lk__peer_job *job);
    void (*job_free)(lk__peer_job *job);
} lk__peer;

#endif /* LK_BENCH_PEER_H */
