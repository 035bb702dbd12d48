/* Empty datasets, from inside: for the format of that name and for parts of empty sets. */
#ifndef LK_DATA_EMPTY_H
#define LK_DATA_EMPTY_H

#include <lockstep/data.h>

/** A dataset of so many samples and no fields.  The caller owns `*out`. */
lk_status lk__dataset_new_empty(int64_t samples, lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_EMPTY_H */
