/* Multi-node training in a loop of a program's own: parameters and gradients that all ranks share, and an
 * optimizer around an optimizer.
 *
 *     lk_optimizer_new(params, "adam", "rate=0.003", &actual);
 *     lk_multi_node_optimizer_new(actual, comm, NULL, &optimizer);
 *     for (...) {
 *         ... forward and backward of this rank's samples into the slab `grads` ...
 *         lk_multi_node_optimizer_update(
 *             optimizer, &(lk_multi_node_input){.grads = grads, .samples = n}, NULL);
 *     }
 *
 * Each rank has its own samples and computes the mean gradient of them.  The gradient that all follow is the
 * mean over the samples of all ranks; ranks with equally many count alike.  What is added is joined by the
 * fixed tree over the ranks (coll.h): it depends on the number of ranks, and on nothing else.  Who wants
 * the same bits on any number of ranks uses a trainer (train.h), which cuts batches into shards.
 *
 * Calls here are collective unless marked: all ranks of the communicator make them in the same order.  A
 * failure of one rank is that of all, in the same call.  `comm` may be NULL everywhere: this rank is alone.
 */
#ifndef LK_MULTI_NODE_H
#define LK_MULTI_NODE_H

#include <lockstep/checkpoint.h>
#include <lockstep/optim.h>
#include <lockstep/parallel.h>

LK_BEGIN_DECLS

/* ---- parameters, gradients, persistent values ---- */

/**
 * All values of a slab, of whatever dtypes, from rank `root` to all.
 *
 * Errors: LK_EINVAL for a root that is no rank; LK_ESTATE when a rank has other tensors (names, dtypes,
 * shapes) than the root, naming the first; those of communication.
 */
LK_API lk_status lk_bcast_data(lk_comm *comm, lk_slab *slab, int root) LK_NODISCARD;

/** How gradients become their mean. */
typedef struct lk_mean_grad_options {
    const char
        *algorithm;  /* of the allreduce, ChainerMN's kinds of communicators too; NULL: by cost */
    lk_wire wire;    /* what gradients travel as */
    int64_t samples; /* that this rank's gradients are the mean of; 0 on all: ranks count alike */
    bool zero_fill;  /* a gradient that a rank does not have counts as zeros */
} lk_mean_grad_options;

/**
 * The mean over ranks of all gradients in a slab of f32 or f64, in place, in one call for all tensors.
 *
 * Rank r gives the mean g(r) of n(r) samples: all get (n(0) g(0) + n(1) g(1) + ...) / (n(0) + n(1) + ...).
 * Where all give the same number, and also where none gives one, it is (g(0) + g(1) + ...) / ranks.  A rank
 * that gives 0 samples where others give some does not count.
 *
 * `has_grad` [slices] says of which tensors this rank has a gradient, and afterwards of which there is a
 * mean; NULL: of all.  What a rank does not have need not be set.  Without zero_fill a tensor that no rank
 * has gets no mean, and ranks that disagree are an error.
 *
 * `options` NULL: zeros; all but the samples are the same on all ranks.  Errors: LK_ESTATE when ranks have
 * other tensors or options, or without zero_fill other gradients, naming what and ranks; LK_EDTYPE; LK_EINVAL
 * for samples below 0 and for an algorithm that does not exist, LK_ENOTSUP for one that cannot do this;
 * LK_EOVERFLOW for samples of all ranks beyond 64 bits; LK_ENAN where lk_comm_set_finite_check() is on and a
 * rank has diverged; those of lk_coll_run().
 */
LK_API lk_status lk_multi_node_mean_grad(lk_comm *comm, lk_slab *grads, bool *has_grad,
                                         const lk_mean_grad_options *options) LK_NODISCARD;

/** The mean over ranks of all tensors of a slab that are real, such as a model's running statistics
 * (lk_model_state()), in place; integers stay.  Errors: as lk_bcast_data(). */
LK_API lk_status lk_allreduce_persistent(lk_comm *comm, lk_slab *slab) LK_NODISCARD;

/* ---- the optimizer ---- */

/** Its options; lk_multi_node_descriptor describes the fields. */
typedef struct lk_multi_node_options {
    const char *communicator; /* the algorithm of the allreduce; NULL: by cost */
    bool double_buffering; /* gradients travel until the next update, and are followed one late */
    bool zero_fill;
    bool mean_of_means; /* ranks count alike, whatever their samples: as ChainerMN has it */
    int wire;           /* lk_wire */
    int64_t accumulate; /* updates whose gradients are added up here before they travel; 0 is 1 */
} lk_multi_node_options;

/** The table of lk_multi_node_options. */
LK_API extern const lk_descriptor lk_multi_node_descriptor;

/**
 * An optimizer that follows the gradients of all ranks.
 *
 * The program makes one on each rank, around an optimizer of its own, and calls it on the thread that has
 * the communicator.  Collective, unless marked.
 *
 *     update   plain            accumulate=2         double_buffering
 *     1        broadcast        broadcast            broadcast
 *     2        mean 2, step 1   add                  mean 2 begins
 *     3        mean 3, step 2   mean 2-3, step 1     mean 2, step 1; mean 3 begins
 *
 * The first update sends the parameters of rank 0 to all and moves nothing, whatever gradients it is given;
 * so does the first after lk_multi_node_optimizer_set_actual().
 */
typedef struct lk_multi_node_optimizer lk_multi_node_optimizer;

/**
 * Make one around `actual`, which is borrowed, as its parameters are, until it is freed or replaced.  The
 * options are those of lk_multi_node_descriptor as lk_options_parse() reads them, the same on all ranks;
 * NULL: all defaults.
 *
 * It has a communicator of its own.  With double buffering that has a thread for progress if MPI allows it
 * (lk_comm_set_progress()); without one, gradients travel inside calls of this header and of comm.h alone.
 * The caller owns `*out`.
 *
 * Errors: those of lk_options_parse(); LK_ESTATE for options that differ between ranks, naming one and the
 * ranks; LK_EINVAL for no communicator, LK_ENOTSUP for one that cannot add up gradients on
 * this wire; LK_EDTYPE for a wire of 16 bits unless parameters are f32; LK_ENOMEM; those of communication.
 */
LK_API lk_status lk_multi_node_optimizer_new(lk_optimizer *actual, lk_comm *comm,
                                             const char *options,
                                             lk_multi_node_optimizer **out) LK_NODISCARD;

/** As lk_multi_node_optimizer_new(), from a struct, whose text is borrowed. */
LK_API lk_status lk_multi_node_optimizer_new_options(lk_optimizer *actual, lk_comm *comm,
                                                     const lk_multi_node_options *options,
                                                     lk_multi_node_optimizer **out) LK_NODISCARD;

/** Wait for what is under way and release all but the actual optimizer.  NULL is allowed. */
LK_API void lk_multi_node_optimizer_free(lk_multi_node_optimizer *optimizer);

/**
 * Go on with another optimizer, of other parameters maybe: a model that has grown.  What was accumulated or
 * pending is dropped, and steps count from 0.
 *
 * Errors: as lk_multi_node_optimizer_new(); it is then as it was.
 */
LK_API lk_status lk_multi_node_optimizer_set_actual(lk_multi_node_optimizer *optimizer,
                                                    lk_optimizer *actual) LK_NODISCARD;

/** What an update is given. */
typedef struct lk_multi_node_input {
    /* Gradients, whose first slices are those of the parameters, as lk_optimizer_input has them.  Where a
     * step follows a mean, it is there afterwards; otherwise they are as they were, but without a gradient
     * become zeros where that is filled in. */
    lk_slab *grads;
    const bool *has_grad; /* [tensors] which this rank has; NULL: all */
    const bool *frozen;   /* [tensors] which stay as they are, the same on all ranks; NULL: none */
    int64_t samples; /* that the gradients are the mean of; 0 on all ranks: as many everywhere */
    int64_t steps_per_epoch,
        epochs; /* for schedules, as lk_schedule_point; steps are counted here */
} lk_multi_node_input;

/** What an update did. */
typedef enum lk_multi_node_act {
    LK_MULTI_NODE_BROADCAST,   /* all have the parameters of rank 0 */
    LK_MULTI_NODE_ACCUMULATED, /* gradients were added up */
    LK_MULTI_NODE_STARTED,     /* they travel, and nothing was there to follow yet */
    LK_MULTI_NODE_STEPPED      /* the actual optimizer has done a step */
} lk_multi_node_act;

typedef struct lk_multi_node_report {
    lk_multi_node_act act;
    int64_t steps;              /* of the actual optimizer, with this one */
    lk_optimizer_report actual; /* of a step; zeros otherwise */
} lk_multi_node_report;

/**
 * One update with the gradients of this rank.  `report` may be NULL.
 *
 * Errors: those of lk_multi_node_mean_grad() and lk_optimizer_step(); LK_EINVAL for gradients that are not
 * laid out as the parameters.  Nothing has been stepped then; what had been accumulated is dropped.  With
 * double buffering the mean that was to be followed stays pending when gradients cannot begin to travel, and
 * is dropped when it failed itself; in either case on all ranks.
 */
LK_API lk_status lk_multi_node_optimizer_update(lk_multi_node_optimizer *optimizer,
                                                const lk_multi_node_input *input,
                                                lk_multi_node_report *report) LK_NODISCARD;

/** Steps of the actual optimizer so far.  Not collective. */
LK_API int64_t lk_multi_node_optimizer_steps(const lk_multi_node_optimizer *optimizer);

/* ---- its state ----
 *
 * With parameters, and slabs and numbers of the actual optimizer, this is all that the updates to come
 * depend on: a program that saves it goes on with the bits of one that was never stopped, on as many ranks.
 *
 *     lk_multi_node_optimizer_settle(optimizer);
 *     ... lk_checkpoint_dir_save() or _load() of a state with these tensors and numbers ...
 *     lk_multi_node_optimizer_resume(optimizer);       after loading
 */

/** Wait until nothing is under way: the state is then complete.  Errors: those of communication, LK_ENAN where
 * lk_comm_set_finite_check() is on, LK_EFPENV, of any rank on all of them; the mean is then dropped. */
LK_API lk_status lk_multi_node_optimizer_settle(lk_multi_node_optimizer *optimizer) LK_NODISCARD;

/** Add its tensors, of which each rank holds its own part or all, to a list, their names behind `prefix`.
 * They stay where they are until lk_multi_node_optimizer_set_actual().  Not collective.  Errors:
 * LK_ENOMEM. */
LK_API lk_status lk_multi_node_optimizer_add_state(lk_multi_node_optimizer *optimizer,
                                                   const char *prefix,
                                                   lk_state_tensors *list) LK_NODISCARD;

/** State number i and its name; NULL behind the last.  Borrowed, may be set when resuming.  The same on all
 * ranks.  Not collective. */
LK_API int64_t *lk_multi_node_optimizer_number(lk_multi_node_optimizer *optimizer, int i,
                                               const char **name);

/** Tensors and numbers have been set: go on from there.  Errors: LK_EINVAL for numbers that cannot be, and for
 * those that differ between ranks, on all of them. */
LK_API lk_status lk_multi_node_optimizer_resume(lk_multi_node_optimizer *optimizer) LK_NODISCARD;

/** Add to the hash of a state what makes its updates others than those of the actual optimizer alone: the
 * number of ranks, the options, and the numbers.  Not collective. */
LK_API void lk_multi_node_optimizer_hash(lk_multi_node_optimizer *optimizer, lk_hash *h);

LK_END_DECLS

#endif /* LK_MULTI_NODE_H */
