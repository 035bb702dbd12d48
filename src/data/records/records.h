/* Datasets of records of tf.train.Example, and writing them: for formats/tfrecord.c. */
#ifndef LK_DATA_RECORDS_H
#define LK_DATA_RECORDS_H

#include "data/records/fields.h"
#include "data/source.h"

/** The dataset of all records of some files, packed or not: `n` sources that it owns from here on, also if this
 * fails; `name` is for messages.  Read are the lengths of the records and all of the first one; where damaged
 * ones are left out, all; where the number of classes is not known, all labels. */
lk_status lk__records_dataset(const char *name, lk__source **source, int64_t n,
                              const lk__record_options *o, lk_dataset **out) LK_NODISCARD;

/** What the options for writing say. */
typedef struct lk__records_writing {
    int64_t files;
    bool gzip;
} lk__records_writing;

/**
 * Write all samples to `path`, or to several files, NAME-00000-of-00008.tfrecord and so on for a path
 * NAME.tfrecord, each with a range of the samples (lk_range_split()).  A name that ends in ".gz" is packed
 * as well, and what is packed has it.
 *
 * The files take their names when all of them are on disk.  They are written by as many threads as there
 * are processors.
 */
lk_status lk__records_write(const lk_dataset *ds, const lk__records_writing *how,
                            const char *path) LK_NODISCARD;

/** The name of what lk__records_write() makes: of the file, or a pattern of the files, in the arena. */
lk_status lk__records_written(const lk__records_writing *how, const char *path, lk_arena *arena,
                              const char **out) LK_NODISCARD;

#endif /* LK_DATA_RECORDS_H */
