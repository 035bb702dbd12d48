/* Gradient groups: what a step adds up, and how it is joined over ranks.
 *
 * A batch is cut into shards that belong to the run, not to the ranks, and sums over the shards are joined
 * by one fixed tree (pieces.h).  Of P replicas, number r has the shards lk_range_split(shards, r, P).  The
 * largest subtrees of that tree that lie within its range are its *micro-batches*: each is a pass of its
 * own through the model and fills an accumulator (gradients, statistics of the batch, the loss), which the
 * tree joins with those of all ranks:
 *
 *     lk__groups_begin(groups, shards, samples);
 *     for (k = 0; k < lk__groups_microbatches(groups, range); k++)
 *         ... a pass over range[k] into lk__groups_accumulator(groups, k) ...
 *     lk__groups_finish_overlap(groups);   what travelled during the passes
 *     lk__groups_allreduce(groups);        the rest: lk__groups_result() has all, everywhere
 *
 * An evaluation deals a batch in the same way, by lk__groups_deal_batch(), and has no accumulators.
 *
 * So what comes out does not depend on the number of ranks.  The slab of an accumulator is covered by
 * groups, each a range of its elements that is joined along one communicator (ranges.c).  Where ranks share
 * nothing but the batch, there is one.  Where they share tiles, a replica is the ranks along space: what
 * layers by samples add up is joined over all ranks; what is the same on all ranks of a replica over
 * replicas; and so are the gradients of tiles, which are then joined over tiles.  Accumulators lie in memory
 * that the ranks of a node share, and are joined there without a copy.
 *
 * With one copy of the parameters for each node (lk__groups_share_slab()), each rank updates its share
 * of them, lk__groups_owned_range(), from gradients that it reads by lk__groups_read_gradient() after
 * lk__groups_reduce_owned().
 *
 * groups.c makes them and begins a batch, buckets.c has what travels during backward, pending_sums.c what
 * does during the next batch, join.c the reductions and shared slabs; these four see inside, by
 * groups_internal.h.
 *
 * The trainer makes them and calls everything here, on its thread; lk__groups_read_gradient() alone may be
 * called on others.
 * Collective over the ranks of the mesh are lk__groups_new(), lk__groups_share_slab(),
 * lk__groups_finish_overlap(), lk__groups_start_pending(), the reductions and lk__groups_barrier().
 */
#ifndef LK_PARALLEL_GROUPS_H
#define LK_PARALLEL_GROUPS_H

#include "nn/model.h"
#include "parallel/control.h"

#include <lockstep/dist.h>
#include <lockstep/extra/plan.h>
#include <lockstep/nn.h>
#include <lockstep/parallel.h>

typedef struct lk__groups lk__groups;

/**
 * Make the groups of a plan.  The caller owns `*out` and frees it before plan, mesh and model.
 *
 * Errors: LK_ESTATE when the model holds no parameters yet; LK_EINVAL when the environment of a rank names
 * an algorithm that may give other bits, such as LK_ALLREDUCE=mpi, unless the plan is fast; LK_ENOMEM;
 * those of communication.
 */
lk_status lk__groups_new(const lk_plan *plan, const lk_mesh *mesh, lk_model *model,
                         lk__groups **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__groups_free(lk__groups *groups);

/** Deal a batch of `samples` samples in `shards` shards, at most as many as a whole batch has, to ranks;
 * returns the shards of this one. */
lk_range lk__groups_deal_batch(lk__groups *groups, int64_t shards, int64_t samples);

/** The same for a step: the accumulators of this rank are then as lk_accumulator_begin() leaves them, for one
 * pass each; those of a rank without shards are zero. */
lk_range lk__groups_begin(lk__groups *groups, int64_t shards, int64_t samples);

/** Parameters may have changed since the last pass, so passes fetch again what they read of those of others;
 * lk__groups_begin() calls it, and an evaluation where it begins. */
void lk__groups_weights_changed(const lk__groups *groups);

/** The micro-batches of this rank, as ranges of shards; returns how many, at most LK_MAX_SUBTREES. */
int lk__groups_microbatches(const lk__groups *groups, lk_range *out);

/** The accumulator that micro-batch `k` fills. */
lk_accumulator *lk__groups_accumulator(const lk__groups *groups, int k);

/**
 * The batch as ranks share it, for layers that need sums over all of it; NULL: this rank is alone, or
 * the plan has no need of it.  Borrowed, until the next batch.
 *
 * Where it is not NULL, ranks wait for each other inside a pass.  So every rank makes the pass, also one
 * without a shard, over no samples; and a rank that fails in it ends the job.
 */
const lk_dist_batch *lk__groups_batch(const lk__groups *groups);

/** What a pass over the samples `pass` of the batch does of each layer, where the run is cut into tiles;
 * `samples` is room for one number more than there are ranks along space, which the parts borrow. */
lk_pass_parts lk__groups_parts(const lk__groups *groups, lk_range pass, int64_t shard_size,
                               int64_t *samples);

/** Whose gradients, and which losses, accumulators keep by tile. */
lk__leaves lk__groups_leaves(const lk__groups *groups);

/** How the shards of the batch are dealt to ranks, for a loss of tiles or of whole samples; in fast mode each
 * rank is a shard. */
lk__deal lk__groups_deal(const lk__groups *groups, bool tiled);

/** Let gradients travel during the backward of the last micro-batch on `tape`, if the plan says so;
 * lk__groups_finish_overlap() ends it. */
void lk__groups_overlap_backward(lk__groups *groups, lk_tape *tape);

/** Start what is left of the gradients that travel during backward, and wait for all, and for those of the
 * batch before that are pending; nothing if none are. */
lk_status lk__groups_finish_overlap(lk__groups *groups) LK_NODISCARD;

/** Join gradients and statistics of all micro-batches: lk__groups_result() then has them, on all ranks.
 * The loss stays that of each. */
lk_status lk__groups_allreduce(lk__groups *groups) LK_NODISCARD;

/** The accumulator of the whole batch, as far as it was joined. */
lk_accumulator *lk__groups_result(const lk__groups *groups);

/* ---- double buffering ----
 *
 * The sums of a batch become pending: they travel while the next batch is computed, and are there when
 * lk__groups_finish_overlap() of that one has returned.
 */

/** Begin to join what this batch has added up, which becomes pending in place of what was.  What
 * lk__groups_pending() gave before stays until the next batch begins.  Collective. */
lk_status lk__groups_start_pending(lk__groups *groups) LK_NODISCARD;

/** What is pending, once it is joined, and how many shards its batch had; NULL: nothing. */
lk_accumulator *lk__groups_pending(const lk__groups *groups, int64_t *shards);

/** Copy what is pending, when it is joined, to a slab whose slices are some of an accumulator's, by their
 * names; zeros if nothing is. */
lk_status lk__groups_save_pending(lk__groups *groups, lk_slab *to) LK_NODISCARD;

/** Let sums that were saved be pending, of a batch of so many shards; 0: nothing is. */
lk_status lk__groups_load_pending(lk__groups *groups, const lk_slab *from,
                                  int64_t shards) LK_NODISCARD;

/* ---- one copy of the parameters for each node ---- */

/**
 * A slab of `from`'s layout that all ranks of a node share, with the values that it has on the first of
 * them.  The caller owns `*out`, and frees it before the groups.
 *
 * Collective.  Errors: as lk_shm_open().
 */
lk_status lk__groups_share_slab(lk__groups *groups, const lk_slab *from, const char *name,
                                lk_slab **out) LK_NODISCARD;

/** Elements of the parameters' slab that this rank updates: the ranges of the ranks of a node cover it. */
lk_range lk__groups_owned_range(const lk__groups *groups);

/** Reduce the gradients of lk__groups_owned_range() now, or on one node prepare to do so when
 * lk__groups_read_gradient() asks; statistics are in lk__groups_result() after lk__groups_barrier(). */
lk_status lk__groups_reduce_owned(lk__groups *groups) LK_NODISCARD;

/**
 * Gradients of elements [first, first + n) of the share, once each in any order and on any thread; not
 * collective.  They are consumed: what the buffers have there is undefined afterwards.  For
 * lk_optimizer_input.read_gradient.
 */
lk_status lk__groups_read_gradient(void *groups, int64_t first, int64_t n, void *out) LK_NODISCARD;

/** Barrier.  Call it after the update of parameters that ranks share. */
lk_status lk__groups_barrier(lk__groups *groups) LK_NODISCARD;

#endif /* LK_PARALLEL_GROUPS_H */
