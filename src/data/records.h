/* Datasets of the records of a TFRecord file: for formats/tfrecord.c. */
#ifndef LK_DATA_RECORDS_H
#define LK_DATA_RECORDS_H

#include "data/source.h"

#include <lockstep/data.h>

/** The names of the features to look for. */
typedef struct lk__record_names {
    const char *image, *label, *height, *width, *depth;
} lk__record_names;

/** The dataset of all records of `s`, which it owns from here on, also if this fails.  Every record
 * is read and checked once; only its place and its label, or that of its targets, are kept. */
lk_status lk__records_dataset(lk__source *s, const lk__record_names *names, int64_t classes,
                              const lk_option_ints *shape, lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_RECORDS_H */
