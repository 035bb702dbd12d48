/* The tape: reverse-mode differentiation of whatever the program does.
 *
 *     lk_var x, w, y, loss;
 *     lk_leaf(tape, weights, weights_grad, &w);      values that gradients are wanted for
 *     lk_constant(tape, batch, &x);                  or lk_constant_data(), lk_leaf_data(): arrays
 *     lk_matmul(x, w, &y);  ...  lk_mean(y, NULL, &loss);
 *     lk_backward(tape, &(lk_seed){.of = loss}, 1, 0); weights_grad += d loss / d weights
 *     lk_tape_reset(tape);                           the next step starts, with the same memory
 *
 * Each call of an op computes at once and is written to the tape with the next sequence number.
 * Backward runs through the numbers in exactly the reverse order.  So the order of communication in
 * backward is the reverse of that in forward, on every rank, and nothing can deadlock that did not.
 *
 * Intermediate values live in the tape's memory: it grows in the first step, is shared by values
 * that are not needed at the same time, and is kept by lk_tape_reset(), so that a loop with fixed
 * shapes allocates nothing from its second step on.
 *
 * Backward can be had in two halves: of postponed leaves lk_backward() only records how their gradients come
 * about, and lk_backward_rest() computes them, with the same bits.  A rank of a pipeline sends the first
 * half's result on before it begins the second.
 *
 * A tape belongs to one thread at a time.  Nothing here is collective unless an op on the tape is:
 * then lk_backward() and lk_grad() must be called by all its ranks, by those without a loss with no
 * seed.  Gradients are of the sum of all ranks' losses.
 */
#ifndef LK_AUTOGRAD_H
#define LK_AUTOGRAD_H

#include <lockstep/tensor.h>

LK_BEGIN_DECLS

/**
 * The record of a computation.  Programs make one for each loop, a trainer makes two; all calls on it and
 * on its variables are of one thread at a time.  Collective only where an op on it is.
 */
typedef struct lk_tape lk_tape;

/**
 * A value on a tape; a handle to copy freely, with nothing to free.
 *
 * It is valid until lk_tape_reset(), and its elements until backward has passed it (see
 * lk_backward()).  Later use is an error, LK_ESTATE.  LK_NO_VAR is no value.
 */
typedef struct lk_var {
    lk_tape *tape;
    uint64_t serial;
    int64_t index;
} lk_var;

#define LK_NO_VAR ((lk_var){NULL, 0, 0})

static inline bool lk_is_var(lk_var v)
{
    return v.tape != NULL;
}

/** Several values: at[0..n).  A call that fills in a list finds room for `room` of them. */
typedef struct lk_list {
    lk_var *at;
    int n, room;
} lk_list;

/** Make an empty tape.  The caller owns it.  Errors: LK_ENOMEM. */
LK_API lk_status lk_tape_new(lk_tape **out) LK_NODISCARD;

/** Free the tape with all its values.  NULL is allowed. */
LK_API void lk_tape_free(lk_tape *tape);

/**
 * Forget all values and keep the memory.  Takes constant time for what ops computed; leaves and
 * constants are released one by one.  Inside backward or a segment it does nothing, and these then
 * fail with LK_ESTATE.  NULL is allowed.
 */
LK_API void lk_tape_reset(lk_tape *tape);

/**
 * Whether ops are recorded from now on (they are at first); returns what was before.  Without,
 * they only compute: for evaluation.
 */
LK_API bool lk_tape_set_recording(lk_tape *tape, bool on);

/** Whether ops are recorded now.  In an op's backward: whether that is to be differentiated again,
 * and must be made of ops that can be. */
LK_API bool lk_tape_is_recording(const lk_tape *tape);

/**
 * Samples of a shard: ops that sum over the first axis (the batch) of a value cut it into shards of
 * this many and join them by the fixed tree of extra/reduce.h, in forward and in backward, so
 * that ranks that hold a part of the batch can compute a part of the sum.  0, the default: one
 * shard.  Stays over resets.  Errors: LK_EINVAL when negative.
 */
LK_API lk_status lk_tape_set_shard_size(lk_tape *tape, int64_t samples) LK_NODISCARD;
LK_API int64_t lk_tape_shard_size(const lk_tape *tape);

/** What a tape holds. */
typedef struct lk_tape_stats {
    int64_t nodes;      /* recorded ops */
    int64_t values;     /* live values */
    int64_t live_bytes; /* of their elements, without leaves and constants */
    int64_t peak_bytes; /* the largest live_bytes since the last reset */
    int64_t held_bytes; /* memory of the tape, in use or not */
} lk_tape_stats;

LK_API lk_tape_stats lk_tape_stats_of(const lk_tape *tape);

/* ---- values from outside ---- */

/**
 * A value that gradients are wanted for, such as a parameter.
 *
 * Retains both tensors until the reset.  `grad` has the dtype and shape of `value`; lk_backward()
 * adds to it, so set it to zero first.  With `grad` NULL only lk_grad() gives its gradient.  The
 * elements are not copied: do not change them between the call and backward.  Such a change by a
 * function of tensor.h is found, and backward refuses; one through a pointer cannot be seen.
 *
 * `grad` must not share elements with a value on the tape.  Leaves are made outside segments.
 *
 * Errors: LK_EINVAL (NULL, `grad` read-only), LK_EDTYPE unless f32 or f64, LK_ESHAPE when the two
 * differ, LK_EOVERLAP when they share elements, LK_ESTATE inside a segment, LK_ENOMEM.
 */
LK_API lk_status lk_leaf(lk_tape *tape, lk_tensor *value, lk_tensor *grad,
                         lk_var *out) LK_NODISCARD;

/**
 * As lk_leaf(), but what `grad` holds does not matter: the next lk_backward() sets it, with the bits of
 * adding to zeros, and to zeros if nothing arrives; later ones add.  After one that failed it may hold
 * anything.  No other leaf on the tape may have this `grad`: its share would be lost.
 */
LK_API lk_status lk_leaf_overwrite(lk_tape *tape, lk_tensor *value, lk_tensor *grad,
                                   lk_var *out) LK_NODISCARD;

/**
 * Let the gradient of a leaf go to another `grad` from now on: as lk_leaf(), or if `overwrite` as
 * lk_leaf_overwrite().  The one before is released.  Where several tapes are under way at once, they need
 * one gradient each only when it is written: the leaf is made with NULL, and gets its `grad` before
 * lk_backward(), or before lk_backward_rest() if it is postponed.
 *
 * Errors: LK_EINVAL when `leaf` is none; those of lk_leaf() for `grad`; LK_ESTATE inside backward or a
 * segment.
 */
LK_API lk_status lk_leaf_set_grad(lk_var leaf, lk_tensor *grad, bool overwrite) LK_NODISCARD;

/**
 * Leave the gradient of a leaf to lk_backward_rest(), until the reset; lk_backward() then writes nothing to
 * its `grad`.  lk_grad() and LK_RECORD know no such leaves: they do all at once.
 *
 * Errors: LK_EINVAL when `leaf` is none, LK_ESTATE inside backward or a segment.
 */
LK_API lk_status lk_leaf_postpone(lk_var leaf) LK_NODISCARD;

/** A value of any dtype without a gradient, such as data.  Retains it.  Errors: as lk_leaf(). */
LK_API lk_status lk_constant(lk_tape *tape, lk_tensor *value, lk_var *out) LK_NODISCARD;

/**
 * lk_leaf() on the host's own arrays, row-major without gaps: the values, which are only read, and the
 * gradient, to which lk_backward() adds, so set it to zero first; NULL: only lk_grad() gives it.
 *
 * Nothing is copied, and the host keeps both arrays: they live until lk_tape_reset(), also of other tapes
 * that they are on, or lk_tape_free(), and the values stay as they are until backward has passed; a
 * change cannot be seen.  Makes a few small blocks, which the reset releases: a loop that is to allocate
 * nothing makes the tensors once, and calls lk_leaf().
 *
 * Errors: as lk_leaf(); LK_EINVAL when `value` is NULL and there are elements, for an array that is
 * not aligned to the size of one, and for a shape as in lk_shape_count(); LK_EOVERFLOW.
 */
LK_API lk_status lk_leaf_data(lk_tape *tape, lk_dtype dtype, lk_shape shape, const void *value,
                              void *grad, lk_var *out) LK_NODISCARD;

/** lk_constant() on the host's own array, of any dtype; it lives as that of lk_leaf_data(), and nothing
 * is copied.  Errors: as lk_leaf_data(). */
LK_API lk_status lk_constant_data(lk_tape *tape, lk_dtype dtype, lk_shape shape, const void *value,
                                  lk_var *out) LK_NODISCARD;

/** A constant filled with `value`, in the tape's memory.  Errors: LK_EDTYPE, as lk_tensor_new(). */
LK_API lk_status lk_full(lk_tape *tape, lk_dtype dtype, lk_shape shape, double value,
                         lk_var *out) LK_NODISCARD;

/* ---- what a value is ---- */

/**
 * The value as a tensor, to read; borrowed, valid as long as the variable.  Views of it and
 * pointers into it see other elements once the memory is used again: lk_tensor_clone() what is to
 * stay.
 *
 * Errors: LK_ESTATE when the tape was reset or the value released, LK_EINVAL for LK_NO_VAR.
 */
LK_API lk_status lk_value(lk_var v, const lk_tensor **out) LK_NODISCARD;

/**
 * Copy the elements of a value, in row-major order, to the host's array of `count` elements.
 *
 * Nothing is converted, and nothing is cut: dtype and count must be those of the value, whatever its
 * shape.  Allocates nothing.
 *
 * Errors, before anything is written: as lk_value(); LK_EDTYPE and LK_ESHAPE, naming both sides;
 * LK_EINVAL when `out` is NULL and there are elements, or not aligned to the size of one; LK_EOVERLAP
 * when it shares memory with the value and is not that value itself.
 */
LK_API lk_status lk_read(lk_var v, lk_dtype dtype, int64_t count, void *out) LK_NODISCARD;

/** The one element of a value of one element.  Errors: as lk_value(); LK_ESHAPE. */
LK_API lk_status lk_item(lk_var v, double *out) LK_NODISCARD;

/** Whether gradients flow through `v`; false for one that is not valid. */
LK_API bool lk_needs_grad(lk_var v);

/** Keep the elements of `v` until the reset, also when backward passes, and also behind the layer that has
 * made it, in a pass of a model that is not recorded.  Errors: as lk_value(). */
LK_API lk_status lk_retain_value(lk_var v) LK_NODISCARD;

/* ---- backward ---- */

/** A value to differentiate, with the gradient to start from: a tensor of its dtype and shape, which may
 * be the gradient of a leaf; the tape may hold it until the reset.  NULL is 1, for a value of one element. */
typedef struct lk_seed {
    lk_var of;
    lk_tensor *grad;
} lk_seed;

enum {
    LK_RETAIN_GRAPH = 1, /* keep what is passed, so that it can be passed again */
    LK_RECORD = 2 /* write backward itself to the tape, for second derivatives; implies RETAIN */
};

/**
 * Add to each leaf's `grad` the gradient of the sum of the seeds.
 *
 * Several losses are several seeds.  What backward has passed is released at once: recorded values
 * before the seeds can then neither be read nor passed again, except leaves, constants, the seeds
 * themselves and what lk_retain_value() named.  Give LK_RETAIN_GRAPH for several passes.
 *
 * Each gradient is the sum of its contributions in the order in which they arise, that is in the
 * reverse order of the program: ((g1 + g2) + g3)...; a leaf's `grad` becomes `grad` + that sum.
 *
 * Errors, before anything is changed: LK_ESTATE when the rest of a pass before is left, when a value was
 * released by such a pass, or changed in place since it was used, naming op and number; LK_ESHAPE for a seed
 * that needs a gradient and has none, or one of another shape; LK_EDTYPE; LK_EINVAL when a seed does not
 * depend on a leaf; LK_ENOTSUP for LK_RECORD through an op whose backward cannot be recorded.  After another
 * failure (LK_ENOMEM, or that of an op) some leaves have their gradients and some have not.
 */
LK_API lk_status lk_backward(lk_tape *tape, const lk_seed *seeds, int n_seeds,
                             unsigned flags) LK_NODISCARD;

/**
 * Compute the gradients of postponed leaves, which lk_backward() has left, and add them to their `grad`.
 *
 * The sums are those that lk_backward() would have made, in their order, with the same bits, and so are
 * the calls of the hook.  In between the tape keeps the inputs of the ops that give these gradients (x and
 * dy of linear, conv, conv_transpose, local_conv, embedding, of the recurrent weights and of biases) and no
 * others, and gives them back one by one.  What comes without an op of its own, as gamma and beta of norms,
 * is computed by lk_backward() and kept.  Seeds and constants that these ops read must not change in
 * between: a change by a function of tensor.h is found.
 *
 * Nothing is left without postponed leaves, and after a reset.  While something is left, another
 * lk_backward() or lk_grad() on the tape is an error.  Never communicates.
 *
 * Errors, before anything is changed: LK_ESTATE when a leaf has no `grad`, when an input was changed in
 * place, and inside backward or a segment.  After another failure some leaves have their gradients and some
 * have not, and nothing is left.
 */
LK_API lk_status lk_backward_rest(lk_tape *tape) LK_NODISCARD;

/** Called by lk_backward() or lk_backward_rest() when a leaf's `grad` has all that this pass adds to it. */
typedef lk_status lk_grad_hook(void *arg, const lk_tensor *grad);

/**
 * Call `fn` during backward, or its rest, as leaves become complete, each once, so that their gradients can
 * travel while backward goes on; NULL: no hook.  Not called for leaves without a gradient in this pass.  `fn`
 * must not use the tape; its failure is backward's.  Stays over resets.
 */
LK_API void lk_tape_set_grad_hook(lk_tape *tape, lk_grad_hook *fn, void *arg);

/**
 * out[i] = the gradient of the sum of the seeds with respect to wrt[i], as a value on the tape;
 * `grad` of leaves stays as it is.
 *
 * With LK_RECORD the results can be differentiated again: this is how gradient norms and
 * Hessian-vector products are made.  wrt[i] may be any value that needs a gradient; zeros if the
 * seeds do not depend on it.  Only what lies between is computed.  Seeds as variables, so that they
 * too can be differentiated: `of` and, unless NULL, `grad_of` have n_of entries, and LK_NO_VAR in
 * the latter is 1.  `out` may be one of the other arrays.
 *
 * Errors: as lk_backward().
 */
LK_API lk_status lk_grad(lk_tape *tape, const lk_var *of, const lk_var *grad_of, int n_of,
                         const lk_var *wrt, int n_wrt, unsigned flags, lk_var *out) LK_NODISCARD;

/* ---- recomputation ---- */

/** A segment of a program: computes out[0..n_out) from values on the tape that `arg` leads to. */
typedef lk_status lk_segment_fn(lk_tape *tape, void *arg, lk_var *out);

/**
 * Run `segment` now, but keep only its outputs; backward runs it again to get the rest.
 *
 * Saves the memory of the segment's intermediate values for the price of a second run.  `arg` must live
 * until backward has passed, and the segment must do the same again: backward compares the outputs and
 * refuses if they differ.  A segment that changes something outside (statistics) asks
 * lk_tape_is_recomputing() whether this is the second run.  One that communicates does so again, with the
 * ranks and messages of its first run; docs/guide/differentiable.md says what other ranks do then.
 *
 * Errors: those of the segment; LK_EINVAL unless 1 <= n_out <= LK_MAX_OUT.
 */
LK_API lk_status lk_recompute(lk_tape *tape, lk_segment_fn *segment, void *arg, int n_out,
                              lk_var *out) LK_NODISCARD;

/** Whether a segment is being run again by backward. */
LK_API bool lk_tape_is_recomputing(const lk_tape *tape);

LK_END_DECLS

#endif /* LK_AUTOGRAD_H */
