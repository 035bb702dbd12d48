/* tf.train.Example in protobuf's wire format: a map of names to lists of bytes, floats or integers.
 *
 *   Example   { Features features = 1; }
 *   Features  { map<string, Feature> feature = 1; }     an entry is { key = 1; value = 2; }
 *   Feature   { BytesList 1, FloatList 2 or Int64List 3 }, each { repeated value = 1; }
 *
 * The reader looks for features by name and says where their values lie.  It reads what protobuf does: it
 * skips unknown fields, takes the last of several entries with the same name and of several kinds of list
 * in a feature, and joins a list that comes in several fields.  LK_ENOTSUP for what it could not tell where
 * it lies: more than one value of bytes in a feature, and floats that are not packed in one piece.
 */
#ifndef LK_DATA_EXAMPLE_H
#define LK_DATA_EXAMPLE_H

#include "data/source.h"

/* Also the numbers of the fields of a Feature. */
typedef enum lk__feature_kind {
    LK_FEATURE_NONE, /* not there, or an empty list */
    LK_FEATURE_BYTES,
    LK_FEATURE_FLOATS,
    LK_FEATURE_INTS
} lk__feature_kind;

enum { LK_FEATURE_INTS_KEPT = 8 };

/** What is looked for, and found: the caller sets the name, lk__example_read() the rest. */
typedef struct lk__feature {
    const char *name; /* borrowed; NULL: nothing is looked for */
    lk__feature_kind kind;
    int64_t n;       /* values; of BYTES, the bytes of its only value */
    int64_t at, end; /* their bytes in the source; FLOATS and INTS without gaps, unless scattered */
    bool scattered; /* INTS: not packed in one piece, so that lk__example_ints() cannot read them */
    int64_t value[LK_FEATURE_INTS_KEPT]; /* INTS: the first ones */
} lk__feature;

/** Bytes of a source that are held while a record is read.  Where they are all of the record, nothing is
 * read from the source. */
typedef struct lk__example_window {
    const lk__source *source;
    int64_t record; /* its number in the file, for messages */
    int64_t at, n;  /* which bytes, from `at` on; n is 0: none yet */
    unsigned char *bytes;
    int64_t room;
} lk__example_window;

/** Find `n_features` features in the record of `n` bytes, which lies at `offset` of the window's source.
 * Values that are bytes or floats are passed over, not read.  Errors: LK_EIO when it is no Example;
 * LK_ENOTSUP, see above. */
lk_status lk__example_read(lk__example_window *w, int64_t offset, int64_t n, lk__feature *feature,
                           int n_features) LK_NODISCARD;

/** Where one of packed INTS begins. */
typedef struct lk__example_place {
    int64_t number, offset; /* which, and where in the source */
} lk__example_place;

/** Decode packed INTS, whose bytes end at `end`: those of a box of the array of `shape`, none of which comes
 * before `*from`.  At first that is number 0, where lk__example_read() has found them; then `*from` is
 * behind the last of the box. */
lk_status lk__example_ints(lk__example_window *w, int64_t end, lk__example_place *from,
                           const lk_shape *shape, const lk_box *box, int64_t *out) LK_NODISCARD;

/* ---- writing, into memory ---- */

/** A feature to write; `data` are n bytes, floats or int64_t. */
typedef struct lk__feature_out {
    const char *name;
    lk__feature_kind kind; /* not LK_FEATURE_NONE */
    const void *data;      /* may be NULL if n is 0 */
    int64_t n;
} lk__feature_out;

/** Bytes of an Example with these features. */
int64_t lk__example_size(const lk__feature_out *feature, int n_features);

/** Write it to `out`, of that many bytes. */
void lk__example_write(const lk__feature_out *feature, int n_features, unsigned char *out);

#endif /* LK_DATA_EXAMPLE_H */
