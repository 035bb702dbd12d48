/* Datasets of .npy arrays, whose first axis counts the samples.  For formats/npy.c and npz.c. */
#ifndef LK_DATA_ARRAYS_H
#define LK_DATA_ARRAYS_H

#include "data/arrays/npy.h"
#include "data/arrays/table.h"
#include "data/packed/zip.h"

/** Field "x" of an array; sets the count.  `shape` may give its samples another shape. */
lk_status lk__arrays_x(lk__table *t, const lk__source *s, const lk__npy *a,
                       const lk_option_ints *shape) LK_NODISCARD;

/** Field "y" of an array, labels if it is of integers. */
lk_status lk__arrays_y(lk__table *t, const lk__source *s, const lk__npy *a) LK_NODISCARD;

/** The dataset of two arrays of an archive, `y` only if it is there; `t` owns `s`, and `*out` then
 * `t`. */
lk_status lk__arrays_npz(lk__table *t, const lk__source *s, const char *x, const char *y,
                         const lk_option_ints *shape, lk_dataset **out) LK_NODISCARD;

/** Write field `f` of a dataset as an array: called with `context` for the header, then for each
 * sample. */
typedef lk_status lk__put_fn(void *context, const void *bytes, int64_t n);
lk_status lk__arrays_write(const lk_dataset *ds, int f, lk__put_fn *put,
                           void *context) LK_NODISCARD;

#endif /* LK_DATA_ARRAYS_H */
