/* Features: layers whose units, channels or vocabulary are cut over ranks.
 *
 * An axis of n features is cut into *blocks*, which belong to the run: they decide bits, whichever rank
 * computes them.  A *feature split* deals the blocks to ranks, to each one subtree of the tree over them; one
 * rank may have all.  Where an axis of n is cut depends on n alone (lk_block_size()), so that axes of equal
 * sizes are cut alike.  An axis of one block is **not cut**: every rank has all of it.
 *
 *     blocks     0     1     2     3          an axis of 100 features, in blocks of 32, 32, 32 and 4
 *     2 ranks   [0     1] [  2     3]         rank 0 has features 0-63, rank 1 features 64-99
 *
 * What ranks have of a value is one of three:
 *
 *     replicated   each has all of it, the same bits
 *     varying      each has the features of its blocks, the last axis [..., held]
 *     partial      each has a sum over its blocks, whose sum over ranks is the value; only
 *                  lk_dist_feature_copy(), _gather_sum() and _join() know what to do with it.  It is not
 *                  even added to another: the tree goes over blocks, not over layers
 *
 * **Gradients here are those of one loss**, which is the ranks' together, in contrast to dist.h: the
 * gradient of a replicated value is the same on all ranks, that of a varying one is varying.  A layer that
 * reads a replicated value and gives a varying one leaves a partial gradient behind, which a copy before
 * it joins.  Backward is of the first order.
 *
 * The nodes are nodes of the tape.  Sums over blocks are one chain for each block, joined by the tree over
 * blocks, so bits do not depend on the ranks: on one rank the same nodes go over all blocks, and with one
 * block they are the ops of ops.h.
 *
 * A host makes a split of its communicator, holds of each parameter what lk_feature_range() says, and
 * calls the nodes; a trainer does so from its plan.  A split lives until the tape that used it is reset,
 * and is used on the thread of its communicator.
 */
#ifndef LK_FEATURES_H
#define LK_FEATURES_H

#include <lockstep/act.h>
#include <lockstep/dist.h>
#include <lockstep/tiles.h>

LK_BEGIN_DECLS

/* ---- who has which blocks ---- */

/** How blocks are dealt to ranks.  A host or a trainer makes it, which is collective, and uses it on the
 * thread of its communicator.  Fields are to be read. */
typedef struct lk_feature_split {
    int64_t blocks;      /* of an axis, at most */
    int64_t least_block; /* features of one, at least */
    int rank, size;
    const int64_t *first; /* [size + 1]: rank r has the blocks from first[r] to first[r + 1] */
    lk_range held;        /* those of this rank */
    lk_comm *comm;        /* the ranks in order, borrowed; NULL: nothing is sent */
    /* Without `comm`, of several ranks: ops run as if there were the others, send nothing, and get
     * zeros; to find what a rank takes. */
    bool rehearses;
} lk_feature_split;

/**
 * Make a split: this is rank `rank` of `size`, which share `blocks` by lk_subtree_partition().
 *
 * `comm` has the ranks in their order and must live longer; NULL: nothing can be sent, as for one rank,
 * or to look at what a rank would have.  The caller owns `*out`.
 *
 * Collective over `comm`: what one rank was given wrong all hear of.  Errors: LK_EINVAL for fewer blocks
 * than ranks, naming both, and for ranks that are not those of the communicator; LK_ENOMEM; those of
 * communication.
 */
LK_API lk_status lk_feature_split_new(lk_comm *comm, int rank, int size, int64_t blocks,
                                      int64_t least_block, lk_feature_split **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_feature_split_free(lk_feature_split *split);

/** Whether an axis of n features is cut: into two blocks or more. */
LK_API bool lk_feature_is_cut(const lk_feature_split *split, int64_t n);

/** What a rank has of an axis of n: the features of its blocks, perhaps none; all, if it is not cut. */
LK_API lk_range lk_feature_range(const lk_feature_split *split, int rank, int64_t n);

/* ---- from one to the other ----
 *
 * All nodes are collective over the split's ranks, where these are several, and `name` is for reports.  n
 * is the size of the whole axis that is cut, the last of x; `of` the size of the axis over whose blocks a
 * partial value is a sum.  Where that axis is not cut, or one rank has all, a node gives x itself.
 * Errors of all: LK_ESHAPE for a value that is not what the rank has, LK_ESTATE for several ranks without
 * a communicator, and those of dist.h.
 */

/** y = x, replicated, for a layer whose units, `of` of them, are cut.  dx = the sum of the partial dy
 * over blocks, replicated: an allreduce in backward. */
LK_API lk_status lk_dist_feature_copy(const lk_feature_split *split, lk_var x, int64_t of,
                                      const char *name, lk_var *out) LK_NODISCARD;

/** x, varying [..., held], as y, replicated [..., n]: an allgather.  dx = this rank's features of dy,
 * which is replicated. */
LK_API lk_status lk_dist_feature_gather(const lk_feature_split *split, lk_var x, int64_t n,
                                        const char *name, lk_var *out) LK_NODISCARD;

/** As lk_dist_feature_gather(), for a layer whose units, `of` of them, are cut: dx = this rank's features
 * of the sum of the partial dy over blocks, a reduce_scatter in backward. */
LK_API lk_status lk_dist_feature_gather_sum(const lk_feature_split *split, lk_var x, int64_t n,
                                            int64_t of, const char *name, lk_var *out) LK_NODISCARD;

/** x, replicated [..., n], as y, varying: this rank's features of it.  dx = all ranks' features of dy: an
 * allgather in backward. */
LK_API lk_status lk_dist_feature_take(const lk_feature_split *split, lk_var x, int64_t n,
                                      const char *name, lk_var *out) LK_NODISCARD;

/** y = the sum of the partial x over the blocks of an axis of `of`, replicated: an allreduce.  dx = dy,
 * as it is.  A rank without a block gives nothing, whatever its x is. */
LK_API lk_status lk_dist_feature_join(const lk_feature_split *split, lk_var x, int64_t of,
                                      const char *name, lk_var *out) LK_NODISCARD;

/* ---- layers ---- */

/** Which axis of a layer's weights is cut. */
typedef enum lk_feature_cut {
    LK_FEATURE_OUT, /* the units: x is replicated, y varying */
    LK_FEATURE_IN   /* what comes in: x is varying, y a sum over blocks */
} lk_feature_cut;

/** What becomes of the sum over blocks, which is dx of LK_FEATURE_OUT and y of LK_FEATURE_IN. */
typedef enum lk_feature_sum {
    LK_FEATURE_JOINED, /* an allreduce: replicated */
    /* Of LK_FEATURE_OUT alone: x is varying, and gathered first; dx is a reduce_scatter, varying. */
    LK_FEATURE_SCATTERED,
    LK_FEATURE_PARTIAL /* nothing: a transition above joins it */
} lk_feature_sum;

/** How a linear layer is cut, and its sizes as a whole. */
typedef struct lk_feature_linear_attr {
    lk_feature_cut cut;
    lk_feature_sum sum;
    int64_t in, units;
    lk_act act; /* none, relu, sigmoid or tanh of the result, in one pass */
} lk_feature_linear_attr;

/**
 * lk_linear_act() of which this rank has a part.
 *
 *     LK_FEATURE_OUT   w [in][held units], b [held units], y [..., held units]
 *                      y has the bits of the whole layer, whatever the blocks; dx = the tree over blocks
 *                      of units, of one chain each
 *     LK_FEATURE_IN    w [held in][units], b [units], y [..., units]
 *                      y = b + the tree over blocks of `in`, of one chain each; dx = dy w', varying,
 *                      and nothing travels
 *
 * dw and db are those of what the rank has, as lk_linear() makes them; of LK_FEATURE_IN b is replicated,
 * and so is db.  What joins dx is begun before dw is computed, which hides it.  LK_FEATURE_PARTIAL of
 * LK_FEATURE_IN takes neither a bias nor an activation: both come behind lk_dist_feature_join().
 *
 * An axis that is not cut makes it lk_linear(); b may be LK_NO_VAR.  Errors: also LK_EINVAL for
 * attributes, LK_EDTYPE.
 */
LK_API lk_status lk_dist_feature_linear(const lk_feature_split *split,
                                        const lk_feature_linear_attr *attr, lk_var x, lk_var w,
                                        lk_var b, const char *name, lk_var *out) LK_NODISCARD;

/** How the filters of a convolution are cut, and its channels as a whole. */
typedef struct lk_feature_conv_attr {
    lk_conv_attr conv;
    lk_feature_sum sum; /* LK_FEATURE_JOINED or LK_FEATURE_PARTIAL */
    int64_t channels, filters;
} lk_feature_conv_attr;

/**
 * lk_conv() of which this rank has some filters: w [kernel...][channels][held filters],
 * b [held filters], y [..., held filters].  x is replicated, y varying; y has the bits of the whole layer,
 * whatever the blocks.  dx = the tree over blocks of filters, of the backward-data pass of each; by
 * Winograd's algorithm of what its output transform gives.  What joins dx is begun before dw is computed.
 *
 * With groups a block has whole groups, as many of the channels as of the filters
 * (lk_feature_has_whole_groups()): x and dx are varying then, w is [kernel...][channels / groups][held
 * filters], nothing travels, and no bits depend on the blocks; `sum` is not asked.
 *
 * Filters that are not cut make it lk_conv(); b may be LK_NO_VAR.  Errors: also LK_EINVAL for attributes,
 * and for groups that blocks would cut.
 */
LK_API lk_status lk_dist_feature_conv(const lk_feature_split *split,
                                      const lk_feature_conv_attr *attr, lk_var x, lk_var w,
                                      lk_var b, const char *name, lk_var *out) LK_NODISCARD;

/** Whether each block of channels and of filters has whole groups, the same ones. */
LK_API bool lk_feature_has_whole_groups(const lk_feature_split *split, int64_t groups,
                                        int64_t channels, int64_t filters);

/** A recurrent cell. */
typedef enum lk_feature_cell { LK_FEATURE_RNN, LK_FEATURE_GRU, LK_FEATURE_LSTM } lk_feature_cell;

/** How the units of a recurrent layer are cut, and its sizes as a whole. */
typedef struct lk_feature_recurrent_attr {
    lk_feature_cell cell;
    lk_feature_sum sum; /* of dx, as of lk_dist_feature_linear() */
    int64_t in, units;
    lk_recurrent_attr recurrent;
} lk_feature_recurrent_attr;

/**
 * lk_linear() and behind it lk_rnn(), lk_gru() or lk_lstm(), of which this rank has some units, with those of
 * every gate: x [samples, times, in] is replicated, or varying with LK_FEATURE_SCATTERED, y [samples, times,
 * held units] varying.
 *
 *     param[0]   w [in][gates][held units]            param[1]   u [units][gates][held units]
 *     param[2]   b [gates][held units], or LK_NO_VAR  param[3]   of a gru, its bias [held units]
 *     state      h and, of an lstm, c, [samples, held units] before the first time; NULL for zeros
 *     last       gets those behind the last time; NULL: they are not wanted
 *
 * y has the bits of the whole layer, whatever the blocks: h of all ranks is gathered before each time, but
 * for zeros.  What a time says of the state before it is the tree over blocks of a chain over the gates, and
 * in each over the units of the block: a reduce_scatter behind each time, the first only if the gradient of
 * `state` is wanted.  dx is the same tree; du, dw and the biases' are those of what the rank has.  Of y and
 * `last` those that no gradient reaches count as zeros.
 *
 * Units that are not cut make it the ops it is made of.  Errors: also LK_EINVAL for attributes, LK_EDTYPE.
 */
LK_API lk_status lk_dist_feature_recurrent(const lk_feature_split *split,
                                           const lk_feature_recurrent_attr *attr, lk_var x,
                                           const lk_var *param, const lk_var *state,
                                           const char *name, lk_var *y, lk_var *last) LK_NODISCARD;

/**
 * lk_embedding() of a table whose rows are cut: this rank has `table` [held rows][units] of `rows` rows,
 * and all have the same indices.  y [..., units] is replicated: the bits of the rank that has a row,
 * joined by OR with the zeros of the others, for a sum would make +0 of -0.  dy is replicated, and the
 * gradient of the table that of this rank's rows; nothing travels in backward.  Bits do not depend on the
 * blocks.
 *
 * A table whose units are cut needs no node: lk_embedding() of [rows][held units] is varying.
 *
 * Errors: also LK_EINVAL for an index that is none of the rows.
 */
LK_API lk_status lk_dist_feature_embedding(const lk_feature_split *split, int64_t rows,
                                           lk_var table, lk_var index, const char *name,
                                           lk_var *out) LK_NODISCARD;

/**
 * lk_softmax_cross_entropy() of logits x [..., held classes], of which there are `classes`, with labels
 * that all ranks have alike: i32 or i64 of the axes of x but the last.  The loss is replicated, dx varying.
 *
 *     m = the largest of a row,  s = the tree over blocks of the lane sums of exp(x - m)
 *     loss = log s - (x[label] - m),  dx = (exp(x - m) / s - [is label]) dloss
 *
 * Three numbers of each row travel in forward, nothing in backward.  Lanes are counted from a block's
 * start: with one block the bits are those of lk_softmax_cross_entropy().
 *
 * Errors: also LK_EINVAL for a label that is none of the classes, and for the reduction.
 */
LK_API lk_status lk_dist_feature_cross_entropy(const lk_feature_split *split, int64_t classes,
                                               lk_var x, lk_var label, lk_loss_reduction reduction,
                                               const char *name, lk_var *out) LK_NODISCARD;

/**
 * How many classes come before the label in each row of x [..., held classes], of which there are `classes`:
 * those whose number is larger, and those of equal numbers and a lower class; NaN is larger than all numbers.
 * Labels as above, that all ranks have alike; y is i64 of their shape, replicated, without a gradient.  0 is
 * a label that is found, less than k one that is among the k largest.
 *
 * Two numbers of each row travel.  Errors: also LK_EINVAL for a label that is none of the classes.
 */
LK_API lk_status lk_dist_feature_places(const lk_feature_split *split, int64_t classes, lk_var x,
                                        lk_var label, const char *name, lk_var *out) LK_NODISCARD;

/* ---- both tiles and features ----
 *
 * Layers whose positions are cut by tiles (tiles.h) and whose units are cut by features: a rank has its tile
 * of its features.  The tiling's ranks are those that have the same features, the split's those that have the
 * same tile; the first take part in each call, and fetch margins.  Nothing travels along features, so that
 * the split's communicator is not used.  Errors: those of both, LK_EINVAL where attr->sum is not
 * LK_FEATURE_PARTIAL: a copy or a gather_sum before the layer joins dx.
 */

/**
 * lk_dist_tile_conv() of which this rank has some filters, and attr->conv.act of it: x is replicated along
 * features, y varying.  w [kernel...][channels][held filters] and b [held filters] (LK_NO_VAR: none) are
 * plain or by tile, each for itself, as are dw and db, which are those of what the rank has.
 *
 * dx is partial: the tree over this rank's blocks of filters of the backward-data pass of each, and 0
 * without filters.  y has the bits of the whole layer, whatever blocks and tiles; dx joined has those of
 * lk_dist_feature_conv(), whatever the tiles.
 *
 * With groups a block has whole groups, as there: x and dx are varying, and attr->sum is not asked.
 * Filters that are not cut make it lk_dist_tile_conv().
 */
LK_API lk_status lk_dist_tile_feature_conv(const lk_tile *tile, const lk_feature_split *split,
                                           const lk_feature_conv_attr *attr, lk_var x, lk_var w,
                                           lk_var b, const char *name, lk_var *out) LK_NODISCARD;

/**
 * lk_dist_tile_linear() of which this rank has some units: w [in][held units] and b [held units], plain or by
 * tile.  x is replicated along features, y varying; dx is partial, the tree over this rank's blocks of
 * units, of one chain each.  Units that are not cut make it lk_dist_tile_linear().
 *
 * Errors: also LK_ENOTSUP for LK_FEATURE_IN.
 */
LK_API lk_status lk_dist_tile_feature_linear(const lk_tile *tile, const lk_feature_split *split,
                                             const lk_feature_linear_attr *attr, lk_var x, lk_var w,
                                             lk_var b, const char *name, lk_var *out) LK_NODISCARD;

/* ---- tags: what goes with what ---- */

/** What ranks have of a value, or of its gradient: one of these bits. */
typedef enum lk_feature_tag {
    LK_FEATURE_TAG_NONE = 0, /* of indices: there is no gradient */
    LK_FEATURE_TAG_REPLICATED = 1,
    LK_FEATURE_TAG_VARYING = 2,
    LK_FEATURE_TAG_PARTIAL = 4,
    LK_FEATURE_TAG_SAME = 8 /* of what a node gives: what it took */
} lk_feature_tag;

/** "replicated", "varying", "partial", "none"; "?" for a value that is none of these. */
LK_API const char *lk_feature_tag_name(lk_feature_tag tag);

/** What a kind of node takes and gives, forward and backward. */
typedef struct lk_feature_rule {
    const char *kind; /* "gather", "linear" */
    int n_in;         /* values that it reads */
    unsigned x, dy;   /* tags that it takes, as bits */
    lk_feature_tag y; /* that it gives */
    lk_feature_tag dx;
    const char *ahead, *back; /* what travels in forward and in backward; "" for nothing */
} lk_feature_rule;

/** The rules of all kinds of nodes that have a gradient: those above, layers that are whole on every rank, and
 * those that work on what they get.  The last has no kind. */
LK_API extern const lk_feature_rule lk_feature_rules[];

/** The rule of a kind.  Errors: LK_EINVAL, suggesting a similar one. */
LK_API lk_status lk_feature_rule_find(const char *kind, const lk_feature_rule **out) LK_NODISCARD;

enum { LK_FEATURE_INPUT = -1 };

/** A node of a plan, for lk_feature_tags_check(). */
typedef struct lk_feature_step {
    const char *name; /* of the layer, for messages: "block1.conv2" */
    const char *kind; /* of lk_feature_rules */
    int64_t in[2];    /* the steps whose values it reads; LK_FEATURE_INPUT: what comes in */
} lk_feature_step;

/**
 * Check that nodes go together, in forward and in backward: that each gets values and gradients with tags
 * that it takes, that the gradient of each value is what the value wants, and that partial ones are joined
 * and never added.  Steps read earlier ones; the value of the last is the result.
 *
 * `x` is the tag of what comes in; `*y` gets that of the result and may be NULL.  Not collective, and
 * nothing is computed: a plan calls it before the first pass.
 *
 * Errors: LK_EINVAL that names the nodes, the tags, and what is missing; LK_ENOMEM.
 */
LK_API lk_status lk_feature_tags_check(const lk_feature_step *steps, int64_t n, lk_feature_tag x,
                                       lk_feature_tag *y) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_FEATURES_H */
