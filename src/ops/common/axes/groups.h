/* Groups: the elements of a row-major tensor that a reduction makes one output of. */
#ifndef LK_OPS_COMMON_GROUPS_H
#define LK_OPS_COMMON_GROUPS_H

#include <lockstep/tensor.h>

/* Axes of one kind, kept or reduced, from the last to the first, neighbours joined. */
typedef struct lk__group_axes {
    int ndim;
    int64_t dim[LK_MAX_NDIM], stride[LK_MAX_NDIM];
} lk__group_axes;

typedef struct lk__reduction_groups {
    lk__group_axes kept, reduced;
    int64_t n; /* elements of a group */
} lk__reduction_groups;

/** The groups of a tensor of `shape` that is reduced over the axes of `bits`. */
lk__reduction_groups lk__groups_of(lk_shape shape, unsigned bits);

/** Elements from the first to number `i`, counted in row-major order along `axes`.  Element p of
 * group k is at offset(kept, k) + offset(reduced, p). */
static inline int64_t lk__group_offset(const lk__group_axes *axes, int64_t i)
{
    int64_t at = 0;
    for (int d = 0; d < axes->ndim; d++) {
        at += i % axes->dim[d] * axes->stride[d];
        i /= axes->dim[d];
    }
    return at;
}

#endif /* LK_OPS_COMMON_GROUPS_H */
