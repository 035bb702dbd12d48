/* Which fields of samples are made of which features of records: what options say, completed by the first
 * record, which all others must be like.
 *
 * Records that are written here have a feature "lockstep" besides, with a text such as
 *
 *   x f64[4,8,8,1], y i64[], 10 classes
 *
 * that says what the lists of a tf.train.Example cannot: dtypes, shapes, and how many classes there are.
 */
#ifndef LK_DATA_RECORD_FIELDS_H
#define LK_DATA_RECORD_FIELDS_H

#include "data/records/example.h"

#include <lockstep/data.h>

/* The choices of an option for a dtype: how elements lie in bytes. */
#define LK_RECORD_DTYPES "auto f32 f64 i32 i64 u8 f16 bf16"

#define LK_RECORD_DESCRIPTION_NAME "lockstep"
enum { LK_RECORD_TEXT = 512 };

/** What the options of the format say; texts are borrowed. */
typedef struct lk__record_options {
    const char *image, *label, *height, *width, *depth; /* names of features */
    int dtype, label_dtype;                             /* of LK_RECORD_DTYPES */
    lk_option_ints shape, label_shape;
    bool label_one_hot;
    int64_t classes;
    lk_option_names fields; /* NAME, NAME:DTYPE or NAME:DTYPE:NxN */
    int damaged;            /* 1: damaged records are left out */
    bool stream;            /* files are read in order */
} lk__record_options;

/* Features that are looked for: of the fields, of the size of an image, and the note. */
enum {
    LK_RECORD_HEIGHT = LK_MAX_FIELDS,
    LK_RECORD_WIDTH,
    LK_RECORD_DEPTH,
    LK_RECORD_DESCRIPTION,
    LK_RECORD_FEATURES
};

typedef enum lk__record_use {
    LK_RECORD_VALUES,
    LK_RECORD_LABELS, /* integers of any width, which become i64 and are classes */
    LK_RECORD_ONE_HOT /* a row that is 1 at the class and 0 elsewhere, which becomes its number */
} lk__record_use;

/* How the values of a field lie in the records. */
typedef struct lk__record_field {
    lk__feature_kind kind;
    int64_t n;   /* as lk__feature.n */
    lk_field in; /* dtype and shape there */
    lk__record_use use;
    int of; /* which field of the samples it is; -1: the feature is not there, and must not be */
} lk__record_field;

/** The fields of a set of records; records.c has one for each set. */
typedef struct lk__record_fields {
    char *texts; /* owned: the names of the features, and the note */
    const char *name[LK_RECORD_FEATURES];
    int n; /* those of fields, from 0 on */
    lk__record_field field[LK_MAX_FIELDS];
    bool sized; /* the shape of x comes from the features of its size */
    int64_t size[3];
    const char *description; /* NULL: records have none */
    int64_t classes;         /* 0: not known yet, or none */
} lk__record_fields;

/** Take what options say about features.  Release with lk__record_fields_free(), also after a failure. */
lk_status lk__record_fields_start(const lk__record_options *o, lk__record_fields *out) LK_NODISCARD;

void lk__record_fields_free(lk__record_fields *f);

/** What the first record says: `feature` has LK_RECORD_FEATURES, found through `w`; it lies at `offset`.
 * Fills in the fields of `info`, and its classes as far as they are known. */
lk_status lk__record_fields_describe(lk__record_fields *f, const lk__record_options *o,
                                     const lk__example_window *w, int64_t offset,
                                     const lk__feature *feature,
                                     lk_dataset_info *info) LK_NODISCARD;

/** Whether there are labels, one integer or more of each sample. */
bool lk__record_fields_labels(const lk__record_fields *f);

/** Another record is like the first. */
lk_status lk__record_fields_check(const lk__record_fields *f, const lk__example_window *w,
                                  int64_t offset, const lk__feature *feature) LK_NODISCARD;

/* ---- the note ---- */

/** The note of a set in `out`.  Errors: LK_ENOTSUP if it is too long. */
lk_status lk__record_description(const lk_dataset_info *info,
                                 char out[LK_RECORD_TEXT]) LK_NODISCARD;

/** What a note says about a field; false if nothing.  `shape` and `dtype` are set only then. */
bool lk__record_description_field(const char *description, const char *name, lk_dtype *dtype,
                                  lk_shape *shape);

/** How many classes it says there are; 0: none. */
int64_t lk__record_description_classes(const char *description);

#endif /* LK_DATA_RECORD_FIELDS_H */
