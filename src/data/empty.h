/* Making empty datasets (empty.c): for the format of that name, subsets of empty sets, and scatter.
 */
#ifndef LK_DATA_EMPTY_H
#define LK_DATA_EMPTY_H

#include <lockstep/data.h>

/** A dataset of so many samples and no fields.  The caller owns `*out`. */
lk_status lk__dataset_new_empty(int64_t samples, lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_EMPTY_H */
