/* What loaders, caches and the comparison of ranks need of an lk_dataset besides data.h: rows in
 * memory, prefetch, runs, and the stamp of its files. */
#ifndef LK_DATA_DATASET_H
#define LK_DATA_DATASET_H

#include "data/source.h"

#include <lockstep/data.h>

/** As lk_dataset_new(), also without fields; `row` may be NULL then. */
lk_status lk__dataset_new_any(const lk_dataset_info *info, lk_dataset_row_fn *row,
                              lk_dataset_box_fn *box, lk_release_fn *release, void *context,
                              lk_dataset **out) LK_NODISCARD;

/** Bytes of one sample in field `f`; cannot overflow, lk_dataset_new() has checked. */
int64_t lk__field_bytes(const lk_field *f);

/** The field of a table by its parts. */
lk_field lk__field(const char *name, lk_dtype dtype, lk_shape shape);

/** Which set of its data this is, for messages; only its maker has it yet. */
void lk__dataset_set_split(lk_dataset *ds, lk_split split);

/** Its samples lie in `n` runs, such as files, of which number k begins with sample first[k]; borrowed for as
 * long as the set is there.  One run if this is not said. */
void lk__dataset_set_runs(lk_dataset *ds, const int64_t *first, int64_t n);

/** Where they begin; there are `*n`. */
const int64_t *lk__dataset_runs(const lk_dataset *ds, int64_t *n);

/** How many classes it has, found after it was made; only its maker has it yet. */
void lk__dataset_set_classes(lk_dataset *ds, int64_t classes);

/** ".validation" or ".test"; NULL for a training set, or if it is not known. */
const char *lk__dataset_split_suffix(const lk_dataset *ds);

/** The name, and the set if that is known: "a.npz, test set".  For messages; borrowed. */
const char *lk__dataset_title(const lk_dataset *ds);

/** Read one sample; `row` as for lk_dataset_row_fn. */
lk_status lk__dataset_row(const lk_dataset *ds, int64_t index, void *const *row) LK_NODISCARD;

/** Whether `t` can take `n` boxes of field `f`, or rows, as a whole box; its first byte. */
lk_status lk__dataset_check_target(const lk_dataset *ds, int f, const lk_box *box, int64_t n,
                                   lk_tensor *t, char **data) LK_NODISCARD;

/* ---- boxes ---- */

/** All of a field. */
lk_box lk__field_whole(const lk_field *field);

/** A box of a field lies in it and has its axes.  Errors: LK_EINVAL with both; also for a field that there
 * is not. */
lk_status lk__box_check(const lk_dataset *ds, int f, const lk_box *box) LK_NODISCARD;

/** Bytes of a box of a field. */
int64_t lk__box_bytes(const lk_field *field, const lk_box *box);

/** Cut a box out of a whole row. */
void lk__box_cut(const lk_field *field, const void *row, const lk_box *box, void *out);

/** Which element of an array the last one of a box is, which is not empty. */
int64_t lk__box_last(const lk_shape *shape, const lk_box *box);

/** Which element of the whole the element `i` of a box is. */
int64_t lk__box_place(const lk_field *field, const lk_box *box, int64_t i);

/** Whether boxes can be read without a row: by a function, or from memory. */
bool lk__dataset_has_boxes(const lk_dataset *ds);

/** Write a box, which lies in field `f`, of a sample; the set has boxes. */
lk_status lk__dataset_box(const lk_dataset *ds, int64_t index, int f, const lk_box *box,
                          void *out) LK_NODISCARD;

/* ---- samples in memory ---- */

/** The samples of field `f` lie at `start`, one after the other, for as long as the set is there.  To be
 * said of all fields or of none. */
void lk__dataset_set_base(lk_dataset *ds, int f, const void *start);

/** Whether lk__dataset_set_base() was called. */
bool lk__dataset_has_base(const lk_dataset *ds);

/** Where the fields of sample `index`, which exists, are: where the set has them in memory, otherwise
 * in `row`, to which they are read. */
lk_status lk__dataset_row_ptr(const lk_dataset *ds, int64_t index, void *const *row,
                              const void **at) LK_NODISCARD;

/** Sample `index`, which exists, will be looked at soon. */
void lk__dataset_prefetch(const lk_dataset *ds, int64_t index);

/** All samples of `ds` in memory, as a dataset of the same name. */
lk_status lk__dataset_load(const lk_dataset *ds, lk_dataset **out) LK_NODISCARD;

/** Memory for one row of each field, in one block: row[f] points into it. */
lk_status lk__dataset_rows_new(const lk_dataset *ds, void **row, void **block) LK_NODISCARD;

/* ---- what is known of it without reading ---- */

/** Its samples are those of these sources: lk__dataset_stamp() can tell whether they have changed. */
void lk__dataset_set_files(lk_dataset *ds, lk__source *const *source, int64_t n);

/** Its samples are a function of the options of its format alone. */
void lk__dataset_set_generated(lk_dataset *ds);

/** A hash of what the set is made from, files as they were when it was opened and options: two sets with
 * the same have the same content.  0: it is not known, as of a program's own. */
uint64_t lk__dataset_stamp(const lk_dataset *ds);
void lk__dataset_set_stamp(lk_dataset *ds, uint64_t stamp);

/** The stamp of a set that a format has opened with its options, if it has said what it is made from. */
lk_status lk__dataset_stamp_options(lk_dataset *ds, const lk_config *format,
                                    lk_split split) LK_NODISCARD;

/** Whether lk_dataset_hash() is known; it is `hash`, computed or from a file. */
bool lk__dataset_is_hashed(const lk_dataset *ds);
void lk__dataset_set_hash(lk_dataset *ds, uint64_t hash);

/** Whether it was found to be the same on all ranks that use it.  Thread safe. */
bool lk__dataset_is_compared(const lk_dataset *ds);
void lk__dataset_set_compared(lk_dataset *ds);

#endif /* LK_DATA_DATASET_H */
