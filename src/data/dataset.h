/* What a dataset is made of, for this room. */
#ifndef LK_DATA_DATASET_H
#define LK_DATA_DATASET_H

#include <lockstep/data.h>

/** Bytes of one sample in field `f`; cannot overflow, lk_dataset_new() has checked. */
int64_t lk__field_bytes(const lk_field *f);

/** The field of a table by its parts. */
lk_field lk__field(const char *name, lk_dtype dtype, lk_shape shape);

/** Read one sample; `row` as for lk_dataset_row_fn. */
lk_status lk__dataset_row(const lk_dataset *ds, int64_t index, void *const *row) LK_NODISCARD;

/** All samples of `ds` in memory, as a dataset of the same name. */
lk_status lk__dataset_load(const lk_dataset *ds, lk_dataset **out) LK_NODISCARD;

/** Memory for one row of each field, in one block: row[f] points into it. */
lk_status lk__dataset_rows_new(const lk_dataset *ds, void **row, void **block) LK_NODISCARD;

#endif /* LK_DATA_DATASET_H */
