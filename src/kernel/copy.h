/* Elements from one place in memory to another, where both may lie spread. */
#ifndef LK_KERNEL_COPY_H
#define LK_KERNEL_COPY_H

#include "kernel/runtime/isa.h"

#include <lockstep/pieces.h>

/* A box of elements: index i of axis d is i * from[d] elements from the first in the source, and
 * i * to[d] in the destination. */
typedef struct lk__copy_box {
    int64_t size; /* of an element, in bytes: 1, 2, 4 or 8 */
    int ndim;
    int64_t dim[LK_MAX_NDIM];
    int64_t from[LK_MAX_NDIM]; /* not negative; 0: the same elements again */
    int64_t to[LK_MAX_NDIM];   /* positive where dim is above 1, and no element comes twice */
} lk__copy_box;

/**
 * dst = src for all elements of the box, by the threads of the pool where it is large; a thread that
 * rehearses does all of it alone.  The two do not overlap.
 *
 * Errors: as lk_threads_now() and lk_isa_now(), where threads or vectors would be used; then nothing was
 * copied.
 */
lk_status lk__copy_run(const lk__copy_box *box, const char *src, char *dst) LK_NODISCARD;

/** Copy n elements of `size` bytes (1, 2, 4 or 8) between rows, on this thread; steps count
 * elements. */
void lk__row_copy(int64_t size, int64_t n, const char *src, int64_t src_step, char *dst,
                  int64_t dst_step);

/* Element c of row r of dst = element r of row c of src; one row of dst begins dst_step bytes after the
 * one before, of src src_step.  `past`: around the cache, as far as rows of dst begin at whole lines. */
typedef void lk__copy_tiles_fn(int64_t rows, int64_t cols, const char *src, int64_t src_step,
                               char *dst, int64_t dst_step, bool past);

/* Rows of n bytes, as they are, around the cache; steps count bytes. */
typedef void lk__copy_past_fn(int64_t rows, int64_t n, const char *src, int64_t src_step, char *dst,
                              int64_t dst_step);

enum { LK__COPY_SIZES = 4 }; /* elements of 1 << i bytes */

typedef struct lk__copy_table {
    lk__copy_tiles_fn *tiles[LK__COPY_SIZES];
    lk__copy_past_fn *past;
} lk__copy_table;

LK_ISA_TABLE(lk__copy_table, lk__copy)

#endif /* LK_KERNEL_COPY_H */
