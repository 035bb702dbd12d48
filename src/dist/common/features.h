/* What the nodes on split features share: the blocks of an axis as collectives take them, and the ops that
 * join and move values over ranks.  Nodes apply them, on the thread of the split's communicator.
 */
#ifndef LK_DIST_COMMON_FEATURES_H
#define LK_DIST_COMMON_FEATURES_H

#include "dist/common/dist.h"

#include <lockstep/features.h>

/** lk_feature_split_new() without the others: what is wrong only this rank hears of. */
lk_status lk__feature_split_make(lk_comm *comm, int rank, int size, int64_t blocks,
                                 int64_t least_block, lk_feature_split **out) LK_NODISCARD;

/** Features of a block of an axis of n. */
int64_t lk__feature_block(const lk_feature_split *split, int64_t n);

/** Whether an axis of n is cut, and others have a part of it. */
bool lk__feature_travels(const lk_feature_split *split, int64_t n);

/** What a rank of this split has of an axis of n. */
static inline int64_t lk__feature_held(const lk_feature_split *split, int64_t n)
{
    return lk_feature_range(split, split->rank, n).n;
}

/** Begin a call: the split, a value, and where it goes; the tape uses the communicator. */
lk_status lk__feature_begin(const lk_feature_split *split, const char *call, lk_var x,
                            lk_var *out) LK_NODISCARD;

/** The last axis of `t`, which is called `what`, must have `n` features.  Errors: LK_ESHAPE. */
lk_status lk__feature_check(const lk_call *c, const char *what, const lk_tensor *t,
                            int64_t n) LK_NODISCARD;

/* Attributes of the ops below, and the head of those of nodes. */
typedef struct lk__feature_node {
    lk__dist d;
    const lk_feature_split *split;
    int64_t n;  /* the axis that is dealt out or gathered: the last */
    int64_t of; /* the axis over whose blocks is summed; 0: nothing is */
    /* Not NULL: the call is begun, and the caller of the op waits for it; operands live as long. */
    lk_request **request;
} lk__feature_node;

/** The attributes of a node; gaps are cleared. */
lk__feature_node lk__feature_of(const lk_feature_split *split, int64_t n, int64_t of,
                                const char *name);

/** Those of its adjoint in backward: ".grad" behind the name.  Refuses a communicator that was freed. */
lk_status lk__feature_adjoint(const lk__feature_node *a, const char *op,
                              lk__feature_node *out) LK_NODISCARD;

/** In forward: a collective over the ranks of a split, with the blocks of an axis of a->of as pieces if
 * it is a sum, unless it has them from an earlier run.  In a rehearsal `bytes` of its output are cleared. */
lk_status lk__feature_run(lk_call *c, const lk__feature_node *a, lk_collective *call,
                          int64_t bytes) LK_NODISCARD;

/** In forward: gather `rows` rows of x, [rows][held], to y, [rows][a->n]. */
lk_status lk__feature_gather(lk_call *c, const lk__feature_node *a, const lk_tensor *x,
                             int64_t rows, void *y) LK_NODISCARD;

/** In backward: the features of each rank of x, [..., a->n], as [rank][row][its features]. */
lk_status lk__feature_by_rank(const lk_call *c, const lk__feature_node *a, lk_var x,
                              lk_var *out) LK_NODISCARD;

/** In backward: the sum over blocks of x, which lies so by rank; this rank's part has `shape`. */
lk_status lk__feature_scatter(const lk_call *c, const lk__feature_node *a, lk_shape shape, lk_var x,
                              lk_var *out) LK_NODISCARD;

/** In backward: the sum over blocks of x, on all ranks. */
lk_status lk__feature_sum(const lk_call *c, const lk__feature_node *a, lk_var x,
                          lk_var *out) LK_NODISCARD;

/**
 * In backward of a layer whose units are cut: what becomes of the partial dx that this rank has.
 *
 * LK_FEATURE_SCATTERED takes it as lk__feature_by_rank() gives it, and a->n says what of.  `*out`, of this
 * shape, is right when lk__feature_dx_end() has returned: what is computed in between hides the call.
 */
lk_status lk__feature_dx_begin(const lk_call *c, const lk__feature_node *a, lk_feature_sum sum,
                               lk_shape shape, lk_var partial, lk_request **request,
                               lk_var *out) LK_NODISCARD;

/** Wait for it, or give it up if `st`, the status of what was done meanwhile, is a failure. */
lk_status lk__feature_dx_end(lk_request **request, lk_status st) LK_NODISCARD;

/** The attributes of a convolution whose filters are cut must be right.  Errors: LK_EINVAL. */
lk_status lk__feature_conv_check(const char *call, const lk_feature_split *split,
                                 const lk_feature_conv_attr *a) LK_NODISCARD;

/** What a rank has of a convolution of which blocks have all, or whole groups: the attributes of its own
 * groups, and `*w` as a convolution of these takes it. */
lk_status lk__feature_conv_local(const lk_feature_split *split, const lk_feature_conv_attr *attr,
                                 lk_conv_attr *out, lk_var *w) LK_NODISCARD;

/** lk_dist_feature_linear() of units that have `gates` columns each: w [in][gates][held units], cut out.  Of
 * dx each block says a chain over the gates, and in each over its units. */
lk_status lk__feature_linear(const lk_feature_split *split, const lk_feature_linear_attr *attr,
                             int64_t gates, lk_var x, lk_var w, lk_var b, const char *name,
                             lk_var *out) LK_NODISCARD;

#endif /* LK_DIST_COMMON_FEATURES_H */
