/* Raw elements as a dataset: for formats/raw.c. */
#ifndef LK_DATA_RAW_H
#define LK_DATA_RAW_H

#include "data/arrays/table.h"

/* The names of all dtypes, in order. */
#define LK_RAW_DTYPES "f32 f64 i32 i64 u8 f16 bf16"

typedef struct lk__raw_layout {
    int dtype; /* lk_dtype */
    int big;   /* 1: the highest byte first */
    lk_option_ints shape;
    int64_t offset;
} lk__raw_layout;

/** The dataset of samples and labels (NULL: none); `t` owns the sources, and `*out` then `t`. */
lk_status lk__raw_dataset(lk__table *t, const lk__source *samples, const lk__raw_layout *x,
                          const lk__source *labels, const lk__raw_layout *y,
                          lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_RAW_H */
