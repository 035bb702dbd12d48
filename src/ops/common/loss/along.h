/* Ops along one axis: their tensors as rows, whichever axis it is.
 *
 * A tensor is [outer][n][inner], n the size of the axis.  Where inner is 1 its rows are there;
 * otherwise they are made by transposing, and the output is transposed back.
 */
#ifndef LK_OPS_COMMON_ALONG_H
#define LK_OPS_COMMON_ALONG_H

#include <lockstep/op.h>

enum { LK_ALONG_MAX_IN = 2 };

typedef struct lk__along {
    int64_t rows, n;
    const void *x[LK_ALONG_MAX_IN]; /* [rows][n] */
    void *y;
    int64_t outer, inner;
} lk__along;

/** The rows of the inputs and the place for those of the output.  For ops with equal shapes. */
lk_status lk__along_begin(lk_call *c, int axis, lk__along *out) LK_NODISCARD;

/** Put the rows of the output where they belong. */
lk_status lk__along_end(lk_call *c, const lk__along *a) LK_NODISCARD;

#endif /* LK_OPS_COMMON_ALONG_H */
