/* Is the backward of a communication node right?  Calls of dist.h, and programs of one's own, against
 * central differences of the sum of all ranks' losses.
 *
 * A sample is a small program: each rank gives it values, of shapes that may differ between ranks,
 * and gets values, or none.  With random cotangents c that differ between ranks (all ones would hide
 * wrong adjoints) and L = the sum over ranks of c * y, in f64:
 *
 *   first     dL/dx by backward, against differences of L along random directions, all ranks at once;
 *             rank by rank if that is wrong, to say where
 *   adjoint   for linear samples: the sum over ranks of <c, F x> against that of <F* c, x>
 *   second    S = the sum over ranks of d * dL/dx with random d: dS/dx and dS/dc by backward through
 *             the recorded backward, against differences of S
 *   single    dL/dx in f32 against f64, and for linear samples the adjoint identity in f32
 *
 * Each sample runs on all ranks of a communicator, and again on the two halves that a split makes of
 * it, even and odd ranks in reverse order.  Errors are relative, as in gradcheck.h.
 */
#ifndef LK_DIST_CHECK_H
#define LK_DIST_CHECK_H

#include <lockstep/dist.h>
#include <lockstep/gradcheck.h>

LK_BEGIN_DECLS

typedef struct lk_dist_sample lk_dist_sample;

/** One program to check.  A table of them ends with one whose `name` is NULL. */
struct lk_dist_sample {
    const char *name; /* what is special about it, for messages */
    int n_in, n_out;  /* at most LK_SAMPLE_MAX_IN and LK_MAX_OUT */

    /** The shape of this rank's input `i`. */
    lk_shape (*shape)(const lk_dist_sample *sample, int rank, int size, int i);

    /** Run it; in[0..n_in) are leaves, all f64 or all f32.  An output that this rank does not get
     * stays LK_NO_VAR. */
    lk_status (*run)(const lk_dist_sample *sample, lk_comm *comm, const lk_var *in, lk_var *out);

    double lo, hi;   /* range of the inputs; both 0: -1 and 1 */
    bool has_zeros;  /* some inputs of some ranks are exactly 0 */
    bool is_linear;  /* y is linear in all x together */
    lk_reduce_op op; /* from here on: for `run`, as it likes */
    int axis, other; /* axes */
    int root;        /* a rank, from the end if negative: lk_dist_root() */
    int variant;     /* of several programs in one `run` */
    const void *attr;
};

/** The samples of one node. */
typedef struct lk_dist_check {
    const char *name;    /* of the call, without lk_dist_ */
    const char *summary; /* one line: the formula, forward and backward */
    const lk_dist_sample *samples;
} lk_dist_check;

/** The nodes that are built in, sorted by name, then NULL. */
LK_API extern const lk_dist_check *const lk_dist_checks[];

/** The rank that `root` of a sample means: 0 the first, -1 the last; taken modulo the size. */
LK_API int lk_dist_root(const lk_dist_sample *sample, const lk_comm *comm);

/**
 * Check the samples of a node, with values and cotangents drawn from `seed`.
 *
 * Collective; all ranks get the same result.  In f32, `single` may be up to 1e-4 for it to pass.  A
 * wrong gradient is not an error of this function: see `pass`.  One that makes ranks wait for each
 * other, or for other calls, is (LK_ESTALL, LK_EMISMATCH), and ends the job as such errors do.
 *
 * Errors: LK_EINVAL (no samples, or samples that give no rank an output with a gradient); those of
 * the samples and of communication.
 */
LK_API lk_status lk_gradcheck_dist(lk_comm *comm, const lk_dist_check *check, int64_t seed,
                                   double tolerance, lk_gradcheck_result *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_DIST_CHECK_H */
