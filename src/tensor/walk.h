/* Walk through the elements of one or two tensors of equal shape, row by row, in row-major order.
 *
 * Axes of size 1 are left out, and neighbouring axes that all tensors step through as one are
 * joined, so a row is as long as it can be; for contiguous tensors it is everything.
 */
#ifndef LK_TENSOR_WALK_H
#define LK_TENSOR_WALK_H

#include "tensor/tensor.h"

struct lk__walk {
    int ndim; /* joined axes; at least 1 */
    int64_t dim[LK_MAX_NDIM], stride[2][LK_MAX_NDIM];
    int64_t index[LK_MAX_NDIM]; /* of the row, on all axes but the last */
    int64_t rows_left;
    int64_t n;        /* elements of a row */
    int64_t step[2];  /* from one element of a row to the next */
    char *row[2];     /* the row's first element in each tensor */
    int64_t first;    /* the number of that element, counted in row-major order */
    int64_t bytes[2]; /* of one element */
};

/** Stand at the first row of `a` and, unless NULL, `b`, which has the same shape. */
void lk__walk_start(struct lk__walk *w, const lk_tensor *a, const lk_tensor *b);

/** Go to the next row. */
void lk__walk_next(struct lk__walk *w);

/** At the first row: keep of each row only `n` elements from number `start` on; `first` is
 * no longer kept. */
void lk__walk_strip(struct lk__walk *w, int64_t start, int64_t n);

#endif /* LK_TENSOR_WALK_H */
