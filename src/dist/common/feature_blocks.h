/* The gradient of x of a convolution whose filters are cut: one backward-data pass for each block of filters
 * that this rank has, joined by the tree over blocks.  What a pass is, its caller knows: on whole samples
 * or on tiles.
 */
#ifndef LK_DIST_COMMON_FEATURE_BLOCKS_H
#define LK_DIST_COMMON_FEATURE_BLOCKS_H

#include <lockstep/op.h>
#include <lockstep/pieces.h>

/** What some of this rank's filters say of dx, from these channels of dy, input 0; `w` [rows][filters.n] has
 * theirs alone, dense.  `dx` is an array as output 0, all of which is written. */
typedef lk_status lk__feature_block_fn(lk_call *c, lk_range filters, const void *w, void *dx);

/** In forward: output 0 becomes the tree over this rank's blocks of `size` filters, of which input 0, dy, has
 * all along its last axis; input 1 begins with w, [rows][filters].  Without filters nothing is written. */
lk_status lk__feature_blocks_run(lk_call *c, int64_t size, int64_t rows,
                                 lk__feature_block_fn *run) LK_NODISCARD;

#endif /* LK_DIST_COMMON_FEATURE_BLOCKS_H */
