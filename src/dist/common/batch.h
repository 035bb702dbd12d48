/* A batch that ranks share, as batch norm sees it, on whole samples and on tiles. */
#ifndef LK_DIST_COMMON_BATCH_H
#define LK_DIST_COMMON_BATCH_H

#include <lockstep/dist.h>

/** Whether the gradients that all ranks have in common are counted here. */
bool lk__batch_is_first(const lk_dist_batch *batch);

/** Whether x [samples][...] is what this rank has of the batch, one subtree.  Errors: LK_EINVAL,
 * LK_ESHAPE. */
lk_status lk__batch_check(const lk_dist_batch *batch, lk_var x) LK_NODISCARD;

/** Sums [n] over this rank's shards become those over all, by the tree over shards.  Collective. */
lk_status lk__batch_join(const lk_dist_batch *batch, lk_dtype dtype, int64_t n, void *sums,
                         const char *name) LK_NODISCARD;

#endif /* LK_DIST_COMMON_BATCH_H */
