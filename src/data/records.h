/* Datasets of records of tf.train.Example: for formats/tfrecord.c. */
#ifndef LK_DATA_RECORDS_H
#define LK_DATA_RECORDS_H

#include "data/record_fields.h"
#include "data/source.h"

/** The dataset of all records of some files, `n` sources that it owns from here on, also if this fails; `name`
 * is for messages.  Where the number of classes is not known, all labels are read for it; otherwise only the
 * lengths of the records and all of the first one. */
lk_status lk__records_dataset(const char *name, lk__source **source, int64_t n,
                              const lk__record_options *o, lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_RECORDS_H */
