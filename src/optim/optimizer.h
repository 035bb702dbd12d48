/* lk_optimizer from inside: an update rule, the slabs of its state, and the slab of parameters that it
 * moves.  Made by lk_optimizer_new(), which trainers and programs call, one on each rank; one thread
 * uses it, and the tasks of a step run on the pool.
 */
#ifndef LK_OPTIM_OPTIMIZER_H
#define LK_OPTIM_OPTIMIZER_H

#include "kernel/updates.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/reduce.h>
#include <lockstep/optim.h>

struct lk_optimizer {
    const lk_update_rule *rule;
    const void *options;
    lk_arena *arena;
    lk_slab *params; /* borrowed */
    lk_dtype dtype;
    int64_t count; /* elements of the parameters' slab, gaps included */
    lk_optimizer_state state;
    lk_slab *slab[LK_OPTIMIZER_MAX_SLABS];
    double number[LK_OPTIMIZER_MAX_NUMBERS];
    double *sum; /* room for one of each tensor: lk_update_call */
};

/**
 * Let state slab `i` live in `slab`, of the parameters' layout, from now on, such as in memory that
 * ranks share; its values are those in the slab.  The optimizer owns it then.
 *
 * Errors: LK_EINVAL if there is no state i, or for another layout; the slab is then the caller's.
 */
lk_status lk__optimizer_bind_state(lk_optimizer *optimizer, int i, lk_slab *slab) LK_NODISCARD;

/** Whether a step can be done in ranges, by several callers: each element's update depends on that
 * element alone, and no norm of all is asked for. */
bool lk__optimizer_splits(const lk_optimizer *optimizer);

/** The next elements that move, from `*at` on and before `end`, behind which `*at` then is; false: no more. */
bool lk__run_next(const lk_update_call *call, int64_t *at, int64_t end, lk_range *out);

/** base^n by squaring: the same bits everywhere. */
double lk__power(double base, int64_t n);

/** An update with what all rules have in common filled in. */
lk__update lk__update_of(const lk_update_call *call);

/**
 * Reduce each tensor of a slab's elements `data` by pieces of 4096 of them, in its dtype, and add up
 * the tensors in double, by the tree: a sum that knows neither gaps nor the order of updates.
 *
 * Of `call` only layout, join_sums, its context, sum, positions and frozen are used: a frozen tensor adds 0.  Errors: LK_ENOTSUP for a
 * tensor that is not all here, unless nothing of it is and there is join_sums, or it is added up by
 * positions; LK_ENOMEM; those of join_sums and of positions->join.
 */
lk_status lk__tensors_reduce(const lk_update_call *call, lk_reduce_axis_op op, const void *data,
                             double *out) LK_NODISCARD;

/** Blocks of a tensor; 0: it is not cut. */
int64_t lk__cut_blocks(const lk_optimizer_cut *cut);

/** Doubles of lk_optimizer_blocks.room for a tensor [outer][n][inner]. */
int64_t lk__blocks_room(const lk_optimizer_cut *cut, int64_t outer);

/** Reduce all blocks that are here, and get the others': call->blocks->sum. */
lk_status lk__blocks_reduce(const lk_update_call *call, lk_reduce_axis_op op,
                            const void *data) LK_NODISCARD;

/** The sum over the blocks of a tensor, by the tree. */
lk_status lk__blocks_tensor(const lk_optimizer_blocks *blocks, int64_t tensor,
                            double *out) LK_NODISCARD;

/** Whether each step takes the norm of all gradients, for clip_norm. */
bool lk__optimizer_clips(const lk_optimizer *o);

/** The most sums over all parameters that the rule takes in a step besides, as lbfgs does; it may take fewer. */
int64_t lk__optimizer_most_sums(const lk_optimizer *o);

/** lk_optimizer_new_config() where steps are given `positions` of the parameters that are not all here. */
lk_status lk__optimizer_new_parts(lk_slab *params, const lk_config *rule,
                                  lk_optimizer **out) LK_NODISCARD;

/** Whether nothing of a tensor that has elements is here. */
bool lk__slice_is_elsewhere(const lk_slab_slice *slice);

#endif /* LK_OPTIM_OPTIMIZER_H */
