/* Element-wise computation on runs of elements, for ops and for sums of gradients.
 *
 * A loop (kernel/loops.h) gets each input as `n` consecutive elements, whatever the strides of the
 * operands are, and writes `n` elements of the output.  Runs are spread over the pool's threads; each
 * output depends on its own inputs alone, so their lengths do not matter.  They are at most
 * LK_EACH_RUN long, so what is gathered for one stays in cache.
 */
#ifndef LK_KERNEL_EACH_H
#define LK_KERNEL_EACH_H

#include "kernel/loops.h"

#include <lockstep/pieces.h>

enum { LK_EACH_RUN = 512 };

/* What becomes of the results f. */
typedef enum lk__each_store {
    LK_EACH_STORE, /* y = f */
    LK_EACH_ADD,   /* y = y + f */
    LK_EACH_FIRST  /* y = 0 + f: the bits of adding to zeros, so a -0 becomes +0 */
} lk__each_store;

/* An input. */
typedef struct lk__each_in {
    const char *start;           /* the first element */
    size_t size;                 /* of an element, in bytes */
    bool direct;                 /* its elements are consecutive, one for each of the output's */
    int64_t stride[LK_MAX_NDIM]; /* otherwise: for each axis of the output, in elements */
} lk__each_in;

/* All elements of an output, which is contiguous. */
typedef struct lk__each_job {
    lk__loop loop;
    lk__each_store store;
    lk_dtype dtype;          /* of the output */
    double p[LK_LOOP_MAX_P]; /* the loop's numbers */
    void *y, *z;             /* z: the second output of loops that have one; with LK_EACH_STORE */
    int64_t n;               /* elements, at least 1 */
    int n_in, ndim;
    int64_t dim[LK_MAX_NDIM]; /* of the output; lk__each_job_run() merges them */
    lk__each_in in[LK_LOOP_MAX_IN];
    lk__loop_fn *const *loops; /* of lk__each_job_run(): those of the dtype */
} lk__each_job;

/** One run, with its operands in place. */
lk_status lk__each_one(lk_dtype dtype, lk__loop loop, lk__each_store store,
                       const lk__operands *o) LK_NODISCARD;

/** All runs of a job.  The output shares no elements with inputs that are not direct; a direct one may
 * be the output.  The caller has checked the floating-point environment.  Errors: those of
 * lk_isa_now() and of lk__parallel(). */
lk_status lk__each_job_run(lk__each_job *j) LK_NODISCARD;

#endif /* LK_KERNEL_EACH_H */
