/* A trainer from inside. */
#ifndef LK_TRAIN_TRAINER_H
#define LK_TRAIN_TRAINER_H

#include "base/partials.h"
#include "coll/agree.h"
#include "parallel/groups.h"

#include <lockstep/alloc.h>
#include <lockstep/op.h>
#include <lockstep/train.h>

/* Numbers that metrics add up. */
typedef struct lk__counts {
    int64_t samples;
    double loss; /* the sum over samples */
    double *number[LK_MAX_METRICS];
    lk_arena *text; /* of their last score */
} lk__counts;

struct lk_trainer {
    lk_trainer_spec spec;
    lk_arena *arena;     /* filled-in options */
    const lk_loss *cost; /* of spec.loss */
    int64_t parts;       /* that a sample's loss is the mean of */
    int n_metrics;
    const lk_metric *metric[LK_MAX_METRICS];
    lk_optimizer *optimizer;
    lk_mesh *mesh;
    lk_plan *plan;
    lk__groups *groups;
    lk__control *control;  /* votes and loss of all ranks */
    bool shares;           /* the node has one copy, of which this rank updates a share */
    lk_slab *placed;       /* its parameters */
    lk_tape *tape;         /* of steps */
    lk_tape *viewing;      /* of evaluation */
    lk_tensor *seed;       /* of backward: one over the samples of the batch */
    lk__partials pieces;   /* of a block: their lk_accumulator, made when needed */
    lk_accumulator *spare; /* the next piece's */
    lk__counts seen;       /* by the steps since the last score: this rank's numbers */
    lk__counts viewed;     /* by an evaluation */
    double *batch_loss;    /* of an evaluation, by batch */
    int64_t max_batch_loss;
    uint64_t *sum, *states; /* of the state's tensors, and the hashes of all ranks; state_hash.c */
    lk_comm *node;          /* the ranks that share a copy, where there are several copies */
    int64_t step;
};

/** The communicator of the ranks; NULL: this one is alone. */
static inline lk_comm *lk__trainer_comm(const lk_trainer *t)
{
    return t->mesh->world;
}

/** This rank's number among them, and how many they are. */
static inline int lk__trainer_rank(const lk_trainer *t)
{
    return t->mesh->world ? lk_comm_rank(t->mesh->world) : 0;
}

static inline int lk__trainer_size(const lk_trainer *t)
{
    return t->mesh->world ? lk_comm_size(t->mesh->world) : 1;
}

/** Memory and communicator for lk_trainer_hash(), when copies are where they stay.  Collective. */
lk_status lk__state_hash_make(lk_trainer *t) LK_NODISCARD;
void lk__state_hash_free(lk_trainer *t);

/** Fail on all ranks, in the same words, unless their trainers have the same data, layers, parameters and
 * settings.  Collective over t->spec.comm. */
lk_status lk__trainer_compare(const lk_trainer *t) LK_NODISCARD;

/** Fail if the model has no parameters. */
static inline lk_status lk__trainer_check_params(const lk_trainer *t)
{
    LK_CHECK(lk_slab_layout_slices(lk_slab_layout_of(lk_model_params(t->spec.model))) > 0,
             LK_EINVAL,
             "the model has no parameters, so there is nothing to train; it can be evaluated");
    return LK_OK;
}

/** The block's samples as variables on `tape`. */
lk_status lk__block_enter(lk_tape *tape, const lk_batch *batch, lk_var *x, lk_var *y) LK_NODISCARD;

/** Add the model's outputs for some samples to the counts. */
lk_status lk__counts_add(const lk_trainer *t, lk__counts *counts, lk_var out,
                         lk_var target) LK_NODISCARD;
void lk__counts_clear(const lk_trainer *t, lk__counts *counts);

/** How many numbers metric `i` has. */
int64_t lk__counts_numbers(const lk_trainer *t, int i);

/** Add up the numbers of all ranks.  Collective. */
lk_status lk__counts_join(const lk_trainer *t, lk__counts *counts) LK_NODISCARD;

/** After `seen` was joined in the middle of an epoch: from then on it is added up on rank 0 alone,
 * or it would be counted twice. */
void lk__seen_keep_on_first(lk_trainer *t);

/** As lk_trainer_train_metrics(), but what was seen is kept: the epoch may go on.  Collective. */
lk_status lk__score_so_far(lk_trainer *t, lk_eval *out) LK_NODISCARD;

/** Turn counts into a score. */
lk_status lk__counts_score(const lk_trainer *t, lk__counts *counts, lk_eval *out) LK_NODISCARD;

/** The sums of a block, piece by piece, into `to`: for models that use a parameter more than once. */
lk_status lk__tree_sums(lk_trainer *t, const lk_batch *block, lk_accumulator *to,
                        lk_step_seconds *time) LK_NODISCARD;

/** One pass: the sums of a block, which begin with zeros. */
lk_status lk__block_pass(lk_trainer *t, const lk_batch *batch, lk_accumulator *sums,
                         lk_step_seconds *time) LK_NODISCARD;

/**
 * A pass of this rank has failed: others may wait for it there, so the job ends with the rank and its
 * message, unless it has.  Returns `st`, or if the job had ended before, what ended it.
 */
lk_status lk__pass_failed(lk_trainer *t, lk_status st) LK_NODISCARD;

/** Samples first <= i < first + n of a batch, as a batch; free its x and y. */
lk_status lk__batch_part(const lk_batch *whole, int64_t first, int64_t n,
                         lk_batch *out) LK_NODISCARD;

/** Say which tensor of a pass is not finite first, or which parameter.  Collective; `batch` is NULL on
 * a rank without samples. */
lk_status lk__blame(lk_trainer *t, const lk_batch *batch, double loss) LK_NODISCARD;

/** Whether what layers have observed is finite; the loss of training does not depend on it.  Errors:
 * LK_ENAN naming the tensor. */
lk_status lk__state_check(const lk_trainer *t) LK_NODISCARD;

#endif /* LK_TRAIN_TRAINER_H */
