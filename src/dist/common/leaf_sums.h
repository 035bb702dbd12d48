/* Sums over the positions of each leaf (a tile of this rank), and their adjoint.
 *
 * x is a held array [samples][box...][channels], its samples cut into pieces (the last may be shorter).
 * A sum is one lane sum of lk_reduce_box() over the samples of a piece, then the positions of a leaf in
 * row-major order: the rows that a rank with this tile alone would have.  Channels have a sum each, or are
 * added up as well, the innermost of a row.
 */
#ifndef LK_DIST_COMMON_LEAF_SUMS_H
#define LK_DIST_COMMON_LEAF_SUMS_H

#include "dist/common/tiles.h"

typedef struct lk__leaf_sums {
    lk_dtype dtype;
    const lk_box *box, *leaf; /* leaf [leaves] */
    int64_t leaves, samples, channels;
    int64_t piece; /* samples in a piece; at least 1 where there are samples */
    bool over_channels;
} lk__leaf_sums;

/** Those of a tensor that is tile->x. */
lk__leaf_sums lk__leaf_sums_of(const lk_tile *tile, lk_dtype dtype, lk_shape x, int64_t piece);

/** [samples][box...][channels]. */
lk_shape lk__tile_shape(const lk_box *box, int64_t samples, int64_t channels);

int64_t lk__leaf_pieces(const lk__leaf_sums *s);

/** out [leaves][pieces][channels], or [leaves][pieces] over channels; +0 of a leaf that is empty. */
lk_status lk__leaf_sum(const lk__leaf_sums *s, const void *x, void *out) LK_NODISCARD;

/** y, an array as x, has at each position of a leaf the leaf's v [leaves][samples][channels], and 0
 * outside of `tile`, which the leaves cover. */
void lk__leaf_spread(const lk__leaf_sums *s, const lk_box *tile, const void *v, void *y);

#endif /* LK_DIST_COMMON_LEAF_SUMS_H */
