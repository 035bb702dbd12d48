/* Cross entropy by labels on the rows of a sheet, of whose classes a part may be elsewhere. */
#ifndef LK_OPS_COMMON_LABELS_H
#define LK_OPS_COMMON_LABELS_H

#include "kernel/sums.h"

#include <lockstep/pieces.h>
#include <lockstep/tensor.h>

typedef struct lk__labels {
    const lk_tensor *label; /* i32 or i64, one for each row of all */
    lk_range own;           /* the classes that rows have */
} lk__labels;

/** p[to] = x[label] - p[k] of each row, x being the first input; 0 where the label is elsewhere. */
void lk__labels_less(lk__sheet *t, const lk__labels *l, int k, int to);

/** y = (y / p[0] - [is label]) p[1] of each row. */
void lk__labels_gradient(lk__sheet *t, const lk__labels *l);

#endif /* LK_OPS_COMMON_LABELS_H */
