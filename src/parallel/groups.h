/* Gradient groups: what a step adds up, and how it is joined over ranks.
 *
 * A batch is cut into pieces (shards) that belong to the run, not to the ranks.  Of P replicas, number r
 * has the pieces lk_range_split(pieces, r, P), cut into the largest subtrees of the sum: its *blocks*.
 * Each block is a pass of its own through the model and fills the sums (gradients, observed statistics,
 * the loss) of its subtree; those of all ranks are joined by the tree:
 *
 *     lk__groups_begin(groups, pieces, samples);
 *     for (k = 0; k < lk__groups_blocks(groups, block); k++)
 *         ... a pass over block[k] into lk__groups_sums(groups, k) ...
 *     lk__groups_join_begun(groups);       what travelled during the passes
 *     lk__groups_join(groups);             the rest: lk__groups_total() has all, everywhere
 *
 * So what comes out does not depend on the number of ranks.  The slab of sums is covered by groups, each
 * a range of its elements that is joined level by level, along one communicator each.  Data alone is one
 * group of one level.  The sums lie in memory that the ranks of a node share, and are joined there
 * without a copy.
 *
 * With one copy of the parameters for each node (lk__groups_place()), each rank updates its share of
 * them, lk__groups_share(), from gradients that it takes by lk__groups_take() after
 * lk__groups_join_share().
 *
 * The trainer makes them and calls everything here, on its thread but for lk__groups_take().  Collective
 * over the ranks of the mesh are lk__groups_new(), lk__groups_place(), the joins and lk__groups_meet().
 */
#ifndef LK_PARALLEL_GROUPS_H
#define LK_PARALLEL_GROUPS_H

#include "parallel/control.h"

#include <lockstep/dist.h>
#include <lockstep/nn.h>
#include <lockstep/parallel.h>

typedef struct lk__groups lk__groups;

/**
 * Make the groups of a plan.  The caller owns `*out` and frees it before plan, mesh and model.
 *
 * Errors: unless the plan is fast LK_EINVAL when the environment of a rank names an algorithm that may
 * give other bits, such as LK_ALLREDUCE=chain; LK_ENOMEM; those of communication.
 */
lk_status lk__groups_new(const lk_plan *plan, const lk_mesh *mesh, lk_model *model,
                         lk__groups **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__groups_free(lk__groups *groups);

/** Begin a batch of so many pieces, at most those of a whole batch, and samples: the range of this rank.
 * Its sums are zero. */
lk_range lk__groups_begin(lk__groups *groups, int64_t pieces, int64_t samples);

/** The blocks of this rank in the batch; returns how many, at most LK_MAX_SUBTREES. */
int lk__groups_blocks(const lk__groups *groups, lk_range *out);

/** The sums that block `k` fills. */
lk_accumulator *lk__groups_sums(const lk__groups *groups, int k);

/**
 * The batch as ranks share it, for layers that need sums over all of it; NULL: this rank is alone, or
 * the plan has no need of it.  Borrowed, until the next batch.
 *
 * Ranks then wait for each other in a pass.  So every rank makes it, one without a piece over no samples,
 * and one that fails in it ends the job.
 */
const lk_dist_batch *lk__groups_batch(const lk__groups *groups);

/** How the pieces of the batch are dealt to ranks; in fast mode each rank is a piece. */
lk__deal lk__groups_deal(const lk__groups *groups);

/** Watch the backward of the last block on `tape`, if gradients travel meanwhile (as the plan says);
 * lk__groups_join_begun() ends it. */
void lk__groups_watch(lk__groups *groups, lk_tape *tape);

/** Start what is left of the gradients that travel during backward, and wait for all; nothing if none
 * do. */
lk_status lk__groups_join_begun(lk__groups *groups) LK_NODISCARD;

/** Join gradients and statistics of all blocks: lk__groups_total() then has them, on all ranks.  The
 * loss stays that of each block. */
lk_status lk__groups_join(lk__groups *groups) LK_NODISCARD;

/** The sums over the whole batch, as far as they were joined. */
lk_accumulator *lk__groups_total(const lk__groups *groups);

/* ---- one copy of the parameters for each node ---- */

/**
 * A slab of `from`'s layout that all ranks of a node share, with the values that it has on the first of
 * them.  The caller owns `*out`, and frees it before the groups.
 *
 * Collective.  Errors: as lk_shm_open().
 */
lk_status lk__groups_place(lk__groups *groups, const lk_slab *from, const char *name,
                           lk_slab **out) LK_NODISCARD;

/** Elements of the parameters' slab that this rank updates.  Those of a node share all of them. */
lk_range lk__groups_share(const lk__groups *groups);

/** Join the gradients of lk__groups_share(), or see to it that lk__groups_take() can; statistics are in
 * lk__groups_total() after lk__groups_meet(). */
lk_status lk__groups_join_share(lk__groups *groups) LK_NODISCARD;

/**
 * Gradients of elements [first, first + n) of the share, once each in any order and on any thread; not
 * collective.  They are gone then: what the sums have there is undefined.  For lk_optimizer_input.give.
 */
lk_status lk__groups_take(void *groups, int64_t first, int64_t n, void *out) LK_NODISCARD;

/** Nobody leaves before all have come: after the update of a shared copy. */
lk_status lk__groups_meet(lk__groups *groups) LK_NODISCARD;

#endif /* LK_PARALLEL_GROUPS_H */
