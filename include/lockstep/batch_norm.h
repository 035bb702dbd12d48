/* Multi-node batch norm: batch norm over the parts of a batch that ranks have, for a program with a loop of
 * its own.  ChainerMN's MultiNodeBatchNormalization.
 *
 *     lk_multi_node_batch_norm_new(comm, 64, "decay=0.9 eps=2e-5", &norm);        64 channels
 *
 *     lk_multi_node_batch_norm_forward(norm, x, NULL, true, &y);      x is this rank's part of the batch
 *     ... the loss of y, lk_backward() ...
 *     lk_allreduce(comm, NULL, gradients, ...);                       of lk_multi_node_batch_norm_grads()
 *     lk_optimizer_step(optimizer, ...);                              on lk_multi_node_batch_norm_params()
 *
 *     y = (x - mean) / sqrt(variance + eps) * gamma + beta            for each channel, the last axis
 *
 * Mean and variance are those of the whole batch: values and gradients are those of one rank that has all
 * samples.  The running ones, for evaluation, move by 1 - decay towards them in each pass of training:
 *
 *     running = running + (1 - decay) (mean or variance of the batch - running)
 *
 * They are the same on all ranks, whatever parts these have.  The variance is the sum of squares over the m
 * elements of a channel in the whole batch, divided by m.
 *
 * A network that is a list of layers has this as its layer `batch_norm` with `statistics: batch` (nn.h), and
 * lk_model_new_multi_node_batch_norm() makes it of one that has batch norm by shards.  docs/guide/multi-node.md is
 * the guide.
 */
#ifndef LK_BATCH_NORM_H
#define LK_BATCH_NORM_H

#include <lockstep/dist.h>
#include <lockstep/option.h>
#include <lockstep/slab.h>

LK_BEGIN_DECLS

/** Gamma, beta, their gradients and running statistics.  The program makes one on each rank, and calls it on
 * the thread that has the communicator and the tape.  Passes of training are collective. */
typedef struct lk_multi_node_batch_norm lk_multi_node_batch_norm;

/** Its options, by the names that they have in ChainerMN. */
typedef struct lk_multi_node_batch_norm_options {
    double decay; /* what is left of the running statistics in a pass */
    double eps;   /* added to the variance */
    bool use_gamma, use_beta;
    double initial_gamma, initial_beta; /* of all channels; others are written to the slab */
    int dtype;                          /* LK_F32 or LK_F64, also of x */
} lk_multi_node_batch_norm_options;

/** The table of these options, with their defaults: decay 0.9, eps 2e-5, gamma and beta that begin with 1 and
 * 0, f32. */
LK_API extern const lk_descriptor lk_multi_node_batch_norm_descriptor;

/**
 * Batch norm of `channels` channels over the ranks of `comm`, with options as lk_options_parse() reads them;
 * NULL: all defaults.
 *
 * Not collective; all ranks give the same.  `comm` is borrowed.  The caller owns `*out`, and frees it after
 * the tapes that it was run on are reset or freed.
 *
 * Errors: those of lk_options_parse(); LK_EINVAL, LK_ENOMEM.
 */
LK_API lk_status lk_multi_node_batch_norm_new(lk_comm *comm, int64_t channels, const char *options,
                                              lk_multi_node_batch_norm **out) LK_NODISCARD;

/** As lk_multi_node_batch_norm_new(), for callers that have a struct; it is copied.  NULL: all defaults. */
LK_API lk_status lk_multi_node_batch_norm_new_options(
    lk_comm *comm, int64_t channels, const lk_multi_node_batch_norm_options *options,
    lk_multi_node_batch_norm **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_multi_node_batch_norm_free(lk_multi_node_batch_norm *norm);

/**
 * *out = batch norm of x [samples][...][channels], this rank's part of the batch.
 *
 * In training by the statistics of the whole batch, towards which the running ones move at once.
 * Collective then, also for a rank whose x is empty.  `batch` says how the batch is cut, as for
 * lk_dist_batch_norm(): with shards the bits are those of one rank that has all samples, whatever ranks
 * there are.  NULL: the part of each rank of the communicator is one piece, and they are counted; the bits
 * then depend on the number of ranks.  `batch->first` must live until the tape is reset.
 *
 * Otherwise by the running statistics; nothing is sent, and `batch` is not looked at.
 *
 * lk_backward() adds the gradients of gamma and beta, over the whole batch, on the rank that has its first
 * shard (without shards: rank 0), and zeros on the others, so that their sum over ranks is that of the batch.
 *
 * Errors: those of lk_dist_batch_norm(); LK_EINVAL for NULL; LK_ESHAPE for other channels, LK_EDTYPE;
 * LK_ESTATE inside a segment of lk_recompute(), for it makes leaves.
 */
LK_API lk_status lk_multi_node_batch_norm_forward(lk_multi_node_batch_norm *norm, lk_var x,
                                                  const lk_dist_batch *batch, bool training,
                                                  lk_var *out) LK_NODISCARD;

/** "gamma" and "beta", as far as they are used; borrowed.  Not collective, like the two below. */
LK_API lk_slab *lk_multi_node_batch_norm_params(const lk_multi_node_batch_norm *norm);

/** What backward adds to, laid out as the parameters; zeros at the start, and for the program to clear
 * (lk_slab_zero()); borrowed. */
LK_API lk_slab *lk_multi_node_batch_norm_grads(const lk_multi_node_batch_norm *norm);

/** The running "mean" and "variance", which begin with 0 and 1; borrowed. */
LK_API lk_slab *lk_multi_node_batch_norm_state(const lk_multi_node_batch_norm *norm);

LK_END_DECLS

#endif /* LK_BATCH_NORM_H */
