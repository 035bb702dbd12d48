/* NumPy's .npy: a magic, a version, the length of a header, the header, which is a Python dictionary
 * as text, and the elements.
 *
 * Read are versions 1 to 3, C order, booleans (as u8), u1, i4, i8, f2, f4 and f8 of either byte order.
 * Written is version 1.0, little-endian, the header padded to 64 bytes, as NumPy itself does it.
 */
#ifndef LK_DATA_NPY_H
#define LK_DATA_NPY_H

#include "data/sink.h"
#include "data/source.h"

#include <lockstep/tensor.h>

enum { LK_NPY_MAX_HEADER = 1 << 16, LK_NPY_HEADER_ROOM = 512 };

typedef struct lk__npy {
    lk_dtype dtype;
    lk_shape shape;
    bool swap;      /* big-endian */
    int64_t offset; /* of the elements in the source */
} lk__npy;

/** Read the header of the array in the `size` bytes at `offset`, all of which it must fill; `array` is
 * its name for messages, NULL if the file is the array. */
lk_status lk__npy_read(const lk__source *s, const char *array, int64_t offset, int64_t size,
                       lk__npy *out) LK_NODISCARD;

/** The header of an array, in `buf` of LK_NPY_HEADER_ROOM bytes.  Errors: LK_ENOTSUP for bf16, which
 * NumPy does not know. */
lk_status lk__npy_header(lk_dtype dtype, lk_shape shape, char *buf, int64_t *n) LK_NODISCARD;

/** Write a tensor to the file `path`. */
lk_status lk__npy_save(const lk_tensor *t, const char *path) LK_NODISCARD;

#endif /* LK_DATA_NPY_H */
