/* Matrix multiplication under canonical arithmetic.
 *
 * Each element of C is one fused-multiply-add chain over k ascending,
 *
 *     acc = start;  for k = 0, 1, ...: acc = fma(A[i][k], B[k][j], acc)
 *
 * where start is C's old value (accumulate), the bias of column j, or +0.  The bits depend on
 * neither m, n, leading dimensions, threads nor instruction set.
 *
 * With `piece` > 0, k is cut into pieces of that many (the last may be shorter).  Each piece is one
 * chain from +0, the pieces are joined by the fixed pairwise tree of reduce.h, and C's old value or
 * the bias, if there is one, is added last, as the first operand (with k = 0 nothing is added).
 * This is how a sum over samples is split among ranks: weight gradients use it.
 */
#ifndef LK_GEMM_H
#define LK_GEMM_H

#include <lockstep/dtype.h>
#include <lockstep/extra/map.h>

LK_BEGIN_DECLS

/** C (m x n) = act(op(A) (m x k) op(B) (k x n) [+ bias or C]); matrices are row-major. */
typedef struct lk_gemm {
    lk_dtype dtype;  /* LK_F32 or LK_F64, of all operands */
    bool trans_a;    /* A is stored k x m */
    bool trans_b;    /* B is stored n x k */
    bool accumulate; /* start from C; not together with a bias */
    lk_act act;
    int64_t m, n, k;       /* any may be 0 */
    int64_t lda, ldb, ldc; /* elements from one stored row to the next, at least its length */
    int64_t piece;         /* 0: one chain over all of k */
} lk_gemm;

/** `count` products, operands that many elements apart; a stride of 0 repeats an input. */
typedef struct lk_gemm_batch {
    int64_t count;
    int64_t stride_a, stride_b, stride_c;
} lk_gemm_batch;

/**
 * Compute C.
 *
 * Not collective.  `a`, `b`: see lk_gemm.  `bias`: n values or NULL.  `c` must not overlap `a`, `b`
 * or `bias`.
 *
 * Errors: LK_EDTYPE, LK_EINVAL, LK_ESHAPE (a leading dimension below the row length),
 * LK_EOVERFLOW, LK_EOVERLAP, LK_ENOMEM, LK_EFPENV.
 */
LK_API lk_status lk_gemm_run(const lk_gemm *g, const void *a, const void *b, const void *bias,
                             void *c) LK_NODISCARD;

/** Compute `batch->count` products.  Outputs must not overlap each other.  As lk_gemm_run(). */
LK_API lk_status lk_gemm_run_batched(const lk_gemm *g, const lk_gemm_batch *batch, const void *a,
                                     const void *b, const void *bias, void *c) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_GEMM_H */
