/* What the files of src/data/formats share: checks of labels, and shapes that options give. */
#ifndef LK_DATA_FORMAT_H
#define LK_DATA_FORMAT_H

#include "data/source.h"

#include <lockstep/data.h>

#include <stddef.h>

enum { LK_MAX_CLASSES = 1 << 24 };

/** Whether some labels are classes: those of the range `which` of all that there are, `each` of them for
 * a sample.  `classes` 0: as many as there may be.  `*most` becomes the largest, if it is larger. */
lk_status lk__labels_check_range(const lk__source *s, const int64_t *label, lk_range which,
                                 int64_t each, int64_t classes, int64_t *most) LK_NODISCARD;

/** Whether the `n` labels of `samples` samples are classes; `*classes` 0 becomes one more than the
 * largest. */
lk_status lk__labels_check(const lk__source *s, const int64_t *label, int64_t n, int64_t samples,
                           int64_t *classes) LK_NODISCARD;

/** The shape an option gives to samples that have the shape `found`; none given: that one. */
lk_status lk__shape_given(const lk_option_ints *given, lk_shape found, const char *name,
                          lk_shape *out) LK_NODISCARD;

/* Rows that many tables have. */
#define LK_PATH_OPTION(of, field, text)                                                         \
    {                                                                                           \
        .name = #field, .type = LK_OPTION_TEXT, .offset = offsetof(of, field), .value = "PATH", \
        .help = text, .flags = LK_OPTION_NO_HASH                                                \
    }
#define LK_PATHS_OPTION(of, field, text)                                                         \
    {                                                                                            \
        .name = #field, .type = LK_OPTION_TEXT, .offset = offsetof(of, field), .value = "PATHS", \
        .help = text, .flags = LK_OPTION_NO_HASH                                                 \
    }
#define LK_CLASSES_OPTION(of)                                                                    \
    {                                                                                            \
        .name = "classes", .type = LK_OPTION_INT, .offset = offsetof(of, classes), .value = "N", \
        .def = "0", .min = 0, .max = LK_MAX_CLASSES,                                             \
        .help = "how many classes there are; 0: one more than the largest label"                 \
    }
#define LK_SHAPE_OPTION(of)                                                       \
    {                                                                             \
        .name = "shape", .type = LK_OPTION_INTS, .offset = offsetof(of, shape),   \
        .value = "N,N,...", .min = 1, .max = 1e9,                                 \
        .help = "the shape of a sample, such as 28,28,1; default: as in the file" \
    }

#endif /* LK_DATA_FORMAT_H */
