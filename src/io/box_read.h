/* Boxes of a tensor whose elements lie one behind the other in a source, or come so.
 *
 * The reader of a file asks a source for what the box spans, a MiB at a time; where bytes can only be
 * had in their order, as unpacked ones, it gives them all to a *fill*, which keeps those of the box.
 */
#ifndef LK_IO_BOX_READ_H
#define LK_IO_BOX_READ_H

#include "data/source.h"
#include "io/boxes.h"

/** Read what is held of a tensor that begins at `offset`.  Errors: LK_EIO, LK_ENOMEM. */
lk_status lk__source_read_held(const lk__source *s, int64_t offset, lk_dtype dtype,
                               const lk__box_held *held) LK_NODISCARD;

/** Bytes of a tensor on their way into a box.  Made by lk__fill_start(), ended by lk__fill_end(). */
typedef struct lk__fill {
    const lk__box_held *held;
    lk_checkpoint_tensor tensor;
    int64_t at, n; /* bytes that have gone by, and that wait in `chunk` for more */
    unsigned char *chunk;
} lk__fill;

/** Begin with the first byte of the tensor.  Errors: LK_ENOMEM. */
lk_status lk__fill_start(lk__fill *f, lk_dtype dtype, const lk__box_held *held) LK_NODISCARD;

/** The next `n` bytes; what is behind the end of the tensor is left out. */
void lk__fill_add(lk__fill *f, const unsigned char *bytes, int64_t n);

/** Also of zeros. */
void lk__fill_end(lk__fill *f);

#endif /* LK_IO_BOX_READ_H */
