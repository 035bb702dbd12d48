/* Is a backward right?  Ops against central differences, on their own samples.
 *
 * For each sample of an op, in f64, with random cotangents c (all ones would hide wrong signs that
 * cancel) and L = sum of c * y over all outputs:
 *
 *   first     dL/dx by backward, against differences of L, for each element of each real input
 *   adjoint   for linear ops: <c, F x> against <F* c, x>
 *   second    S = sum of d * dL/dx with random d: dS/dx and dS/dc by backward through the recorded
 *             backward, against differences of S; unless the op has LK_OP_FIRST_ORDER
 *
 * Differences are of fourth order, with steps of 1e-4.  An error is the largest difference of an
 * input's gradient divided by the largest element of that gradient (at least 1e-3).
 */
#ifndef LK_GRADCHECK_H
#define LK_GRADCHECK_H

#include <lockstep/op.h>

LK_BEGIN_DECLS

typedef struct lk_gradcheck_result {
    bool pass;    /* all errors are within the tolerance, and there was something to check */
    int samples;  /* checked */
    int numbers;  /* derivatives compared */
    double first; /* the largest errors; -1 where that check does not apply */
    double adjoint;
    double second;
    double single;   /* in f32: of communication nodes only, see dist_check.h */
    char worst[224]; /* where the largest error is, with both numbers */
} lk_gradcheck_result;

/**
 * Check `op` on its samples, with values and cotangents drawn from `seed`.
 *
 * Collective if the op is.  A wrong gradient is not an error of this function: see `pass`.
 *
 * Errors: LK_EINVAL (an op without samples, a sample that is no input for the op); those of the op.
 */
LK_API lk_status lk_gradcheck(const lk_op *op, int64_t seed, double tolerance,
                              lk_gradcheck_result *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_GRADCHECK_H */
