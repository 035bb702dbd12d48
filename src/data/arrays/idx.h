/* IDX, the format of MNIST: bytes 0, 0, type, number of axes, then the sizes and the elements, all
 * big-endian.  The first axis counts the samples. */
#ifndef LK_DATA_IDX_H
#define LK_DATA_IDX_H

#include "data/arrays/table.h"

/** What an IDX file holds; the file must have exactly the bytes that its header promises. */
lk_status lk__idx_read(const lk__source *s, int64_t *count, lk__layout_in *out) LK_NODISCARD;

/** The dataset of images and labels (NULL: none); `t` owns the sources, and `*out` then `t`.  Images
 * get an axis of one channel. */
lk_status lk__idx_dataset(lk__table *t, const lk__source *images, const lk__source *labels,
                          int64_t classes, lk_dataset **out) LK_NODISCARD;

/** The dataset of two files; `labels` may be NULL. */
lk_status lk__idx_files(const char *images, const char *labels, int64_t classes,
                        lk_dataset **out) LK_NODISCARD;

/** The set of a folder in MNIST's names; `*out` is NULL if its images are not there. */
lk_status lk__idx_folder(const char *folder, lk_split split, int64_t classes,
                         lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_IDX_H */
