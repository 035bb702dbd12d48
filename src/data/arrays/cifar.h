/* CIFAR-10 and CIFAR-100 in their binary form: records of one or two label bytes and 3072 bytes, the
 * red, then the green, then the blue plane of 32 x 32 pixels. */
#ifndef LK_DATA_CIFAR_H
#define LK_DATA_CIFAR_H

#include "data/source.h"

#include <lockstep/data.h>

enum { LK_CIFAR_FILES = 8 };

typedef struct lk__cifar_kind {
    const char *name;
    const char *train[LK_CIFAR_FILES], *test[LK_CIFAR_FILES]; /* NULL-terminated */
    int label_bytes;                                          /* before the pixels */
    int label;                                                /* which of them counts */
    int64_t classes;
} lk__cifar_kind;

/** The dataset of `n` sources, of which it becomes the owner, also if this fails. */
lk_status lk__cifar_dataset(const lk__cifar_kind *kind, lk__source *const *source, int n,
                            lk_dataset **out) LK_NODISCARD;

/** The set of a folder, or of the one file `path` as the training set; `*out` is NULL if the folder
 * lacks the first file. */
lk_status lk__cifar_open(const lk__cifar_kind *kind, const char *path, lk_split split,
                         lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_CIFAR_H */
