/* Element-wise computation on runs of elements, for ops and for sums of gradients.
 *
 * A function gets each input as `n` consecutive elements, whatever the strides of the operands are,
 * and writes `n` elements of the output.  Runs are spread over the pool's threads; each output
 * depends on its own inputs alone, so their lengths do not matter.  They are at most LK_EACH_RUN
 * long, so what a function computes on the way fits into an lk__each_room on the stack.
 */
#ifndef LK_KERNEL_EACH_H
#define LK_KERNEL_EACH_H

#include <lockstep/dtype.h>
#include <lockstep/extra/map.h>
#include <lockstep/pieces.h>

enum { LK_EACH_MAX_IN = 4, LK_EACH_RUN = 512 };

/* Room for a run of either type. */
typedef union lk__each_room {
    _Alignas(64) float f32[LK_EACH_RUN];
    double f64[LK_EACH_RUN];
} lk__each_room;

/* A run of elements. */
typedef struct lk__each {
    lk_dtype dtype; /* of the output */
    double p;       /* the op's parameter */
    const void *attr;
    int64_t first, n;              /* elements of the output, counted in row-major order */
    const void *x[LK_EACH_MAX_IN]; /* x[0] where there are fewer inputs */
    void *y;
} lk__each;

typedef lk_status lk__each_fn(const lk__each *e);

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
    lk__each_fn *fn;
    lk__each each; /* dtype, p, attr and y; n is the number of all elements, at least 1 */
    lk__each_store store;
    int n_in, ndim;
    int64_t dim[LK_MAX_NDIM]; /* of the output; lk__each_job_run() merges them */
    lk__each_in in[LK_EACH_MAX_IN];
    _Atomic int failed; /* the status of a run that failed */
} lk__each_job;

/** One run, with its inputs in place. */
lk_status lk__each_one(const lk__each *e, lk__each_fn *fn, lk__each_store store) LK_NODISCARD;

/** All runs of a job.  The output shares no elements with inputs that are not direct; a direct one may
 * be the output.  The caller has checked the floating-point environment.  Errors: those of `fn`, and of
 * lk__parallel(). */
lk_status lk__each_job_run(lk__each_job *j) LK_NODISCARD;

/** y[i] = op(x[i]; p) and z[i] = op(x[i], y[i]) for a run, as lk_map1() and lk_map2() have it. */
lk_status lk__each_map1(const lk__each *e, lk_map1_op op, const void *x, void *y) LK_NODISCARD;
lk_status lk__each_map2(const lk__each *e, lk_map2_op op, const void *x, const void *y,
                        void *z) LK_NODISCARD;

#endif /* LK_KERNEL_EACH_H */
