/* lk_trainer from inside, for the files of this room: one model, loss, optimizer and loader on each rank.
 * A job makes it, or the program; all of it runs on the one thread that calls it. */
#ifndef LK_TRAIN_TRAINER_H
#define LK_TRAIN_TRAINER_H

#include "coll/agree.h"
#include "io/sums.h"
#include "parallel/groups.h"
#include "train/chained.h"
#include "train/pipeline/pipeline.h"
#include "train/shards.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/plan.h>
#include <lockstep/op.h>
#include <lockstep/train.h>

/* A loss that counts: that of the experiment, or a layer's term.  The loss of a step is the sum of them. */
typedef struct lk__summand {
    const char *name; /* "loss", or the layer's */
    int64_t term;     /* number among the model's; -1: the experiment's loss */
    double weight;
    int64_t parts;   /* that a sample's loss is the mean of */
    lk_tensor *seed; /* of backward: weight over parts and over the samples of the batch */
    double *own;     /* [micro-batches][leaves] of this rank */
} lk__summand;

/* What a pass needs while it is under way: one for the trainer's tape, or for each of a pipeline's. */
typedef struct lk__pass_room {
    lk_tape *tape;
    lk_pass_parts parts; /* where the run is cut into tiles */
    int64_t *owners;     /* of the ranks along space: whose samples are which */
    lk_seed *seeds;      /* one for each of its losses */
} lk__pass_room;

/* What is counted over samples, for their loss and metrics. */
typedef struct lk__counts {
    int64_t samples; /* of all ranks, */
    double loss;     /* and the sum of their losses: the same on every rank; */
    double *each;    /* [n_summands] those of each, and the means that were reported */
    double *mean;
    double *sums[LK_MAX_METRICS]; /* of each metric, over this rank's samples */
    lk_arena *text;               /* that lk_eval.json of the last lk__counts_eval() points into */
} lk__counts;

struct lk_trainer {
    lk_trainer_spec spec;
    lk_trainer_options options;
    lk_arena *arena;     /* of the options, defaults filled in */
    const lk_loss *loss; /* of options.loss */
    int64_t parts;       /* that a sample's loss is the mean of */
    int64_t n_summands;  /* losses that count, in this order: that of the experiment, terms */
    lk__summand *summand;
    lk__loss_sum *joined; /* [n_summands] what ranks exchange of them */
    bool counts_loss;     /* the experiment's is among them */
    lk_pass_terms terms;  /* of passes; `value` NULL: no term counts */
    lk_tensor_type out;   /* of a sample: what the model gives, or the chain, on whichever rank */
    lk__chained *chained; /* of a chain, in place of plan and groups; NULL: a model is trained */
    int n_metrics;
    const lk_metric *metric[LK_MAX_METRICS];
    lk_optimizer *optimizer;
    bool *frozen; /* of each parameter, whether it stays as it is; NULL: of a chain, none does */
    bool *marks;  /* of the model, as they were before; NULL: nothing was marked */
    bool has_frozen;
    lk_mesh *mesh;
    lk_plan *plan;
    lk__groups *groups;
    lk__control *control;   /* votes and loss of all ranks */
    bool trains;            /* the model knows of this trainer */
    bool spread;            /* of some parameters ranks along space hold their positions only */
    bool shares;            /* the node has one copy, of which this rank updates a share */
    lk_slab *shared_params; /* its parameters */
    lk_tape *tape;          /* of steps, and of evaluation, which it does not record */
    lk_tensor *seed;        /* of backward: one over the samples of the batch */
    lk__pass_room room;     /* of passes on `tape` */
    lk__pipeline *pipeline; /* of several stages; NULL: there is one */
    lk_optimizer_positions positions; /* how these are added up, where the run is cut into tiles */
    lk_optimizer_blocks
        blocks;              /* how parameters are that it cuts into blocks; `cut` NULL: none is */
    lk__shard_sums shards;   /* of a model that uses a parameter more than once */
    lk__counts step_counts;  /* of the step that is under way: what its passes have counted */
    lk__counts train_counts; /* of the steps since lk_trainer_train_metrics() */
    lk__counts eval_counts;  /* of an evaluation */
    /* Parameters, the model's state, what is pending, the optimizer's slabs: state_hash.c */
    lk_state_tensors *held;
    lk_slab *pending;          /* of double buffering, a copy for states; NULL: there is none */
    int64_t n_params, n_state; /* of them; what is pending counts as state */
    lk__sums counted[3];       /* what this rank hashes of them */
    uint64_t *sum, *states;    /* of the state's tensors, and the hashes of all ranks */
    uint64_t *spread_sum;      /* of those that ranks along space hold positions of */
    lk_comm *node;             /* the ranks that share a copy, where there are several copies */
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

/** The parameters that the optimizer updates; borrowed. */
static inline lk_slab *lk__trainer_params(const lk_trainer *t)
{
    return t->chained ? t->chained->state->params : lk_model_params(t->spec.model);
}

/** Whether ranks hold different parts of the parameters. */
static inline bool lk__trainer_has_parts(const lk_trainer *t)
{
    return t->chained || t->spread || t->mesh->n[LK_AXIS_FEATURES] > 1 ||
           t->mesh->n[LK_AXIS_STAGES] > 1;
}

/** Freeze the layers that t->options leave out or that do not run, and note what moves.  Not collective. */
lk_status lk__frozen_make(lk_trainer *t) LK_NODISCARD;
void lk__frozen_free(lk_trainer *t);

/** What lk_trainer_hash() and checkpoints need, when copies are where they stay.  Collective. */
lk_status lk__state_hash_make(lk_trainer *t) LK_NODISCARD;
void lk__state_hash_free(lk_trainer *t);

/** lk_trainer_hash() of this state as so many ranks have it, whose number is in the hash in fast mode. */
lk_status lk__state_hash_as_of(lk_trainer *t, int ranks, uint64_t *out) LK_NODISCARD;

/** Room for what is pending between steps, if the options say so.  Not collective. */
lk_status lk__pending_state_make(lk_trainer *t) LK_NODISCARD;

/** How many shards the batch had whose sums are pending; 0: none are. */
int64_t lk__pending_shards(const lk_trainer *t);

/** Take t->pending for those of a batch of so many shards, as lk__groups_save_pending() has put them there.
 * Nothing if it is NULL. */
lk_status lk__pending_load(lk_trainer *t, int64_t shards) LK_NODISCARD;

/** Whether the node has one copy of t->held->tensor[i]. */
bool lk__held_is_shared(const lk_trainer *t, int64_t i);

/** Fail for a layout, exchange or devices that a training on so many ranks cannot have; the model, if there is one,
 * is built.  Not collective. */
lk_status lk__trainer_layout_check(const lk_trainer_spec *spec, int ranks) LK_NODISCARD;

/** Fail unless so many ranks are those that the layout needs.  Not collective. */
lk_status lk__trainer_ranks_check(const lk_trainer_spec *spec, int ranks) LK_NODISCARD;

/** Let rank 0 warn if tiles of pieces, or features, cut nothing in the model; the plan is made. */
void lk__unused_pieces_log(const lk_trainer *t);

/** Make t->mesh, and let the model hold what this rank needs.  Errors: LK_ESTATE if it holds something else.
 * Collective over t->spec.comm. */
lk_status lk__trainer_place(lk_trainer *t) LK_NODISCARD;

/** Fill in t->positions, whose axes stay NULL if no parameter has positions that tiles cut.  Not collective. */
lk_status lk__positions_make(lk_trainer *t) LK_NODISCARD;

/** Fill in t->blocks, behind the optimizer; its cut stays NULL if no parameter is cut.  Not collective. */
lk_status lk__blocks_make(lk_trainer *t) LK_NODISCARD;

/** Whether the loss can be taken of features of which ranks have some each, with the targets of the data. */
bool lk__criteria_splits(const lk_trainer *t);

/** Whether some metric takes places of labels alone, or, unless `places`, all features. */
bool lk__criteria_takes(const lk_trainer *t, bool places);

/** Fail on all ranks, in the same words, unless they are to be one layout.  Collective over t->spec.comm. */
lk_status lk__layout_compare(const lk_trainer *t) LK_NODISCARD;

/** Fail on all ranks, in the same words, unless their trainers have the same data, layers, parameters and
 * settings.  Collective over t->spec.comm. */
lk_status lk__trainer_compare(const lk_trainer *t) LK_NODISCARD;

/** Which losses count, of those that the model has: t->summand, t->terms.  Not collective.  Errors: LK_EINVAL
 * for a name that is none of them, and for a term of a layer that does not run; LK_ENOTSUP where terms
 * cannot be had. */
lk_status lk__losses_choose(lk_trainer *t) LK_NODISCARD;

/** Room for them, once there is a plan; and what they take is freed. */
lk_status lk__losses_make(lk_trainer *t) LK_NODISCARD;
void lk__losses_free(lk_trainer *t);

/** Exchange the losses of this rank's micro-batches, summand->own, and how it went here: t->joined then has
 * those of the whole batch.  The failure of a rank, `st`, is that of all.  Collective. */
lk_status lk__losses_exchange(lk_trainer *t, lk_status st) LK_NODISCARD;

/** The sum of the losses of a batch, from t->joined, which is exchanged; `each` [n_summands] gets its
 * summands.  Or they are added to `each`. */
double lk__losses_sum(const lk_trainer *t, double *each);
void lk__losses_add(const lk_trainer *t, double *each);

/** Fill in the options of loss and metrics, and check them against t->out and the data.  Not collective. */
lk_status lk__criteria_make(lk_trainer *t) LK_NODISCARD;

/** Fail if the model has no parameters. */
static inline lk_status lk__trainer_check_params(const lk_trainer *t)
{
    LK_CHECK(lk_slab_layout_slices(lk_slab_layout_of(lk__trainer_params(t))) > 0, LK_EINVAL,
             "the model has no parameters, so there is nothing to train; it can be evaluated");
    return LK_OK;
}

/** Set the seeds for a batch of so many samples: what backward starts from. */
lk_status lk__seed_fill(const lk_trainer *t, int64_t samples) LK_NODISCARD;

/** Seconds since `*from`, a lk_clock_ns(), which becomes now. */
double lk__seconds_since(int64_t *from);

/** A field of zeros for `n` samples, in place of one that could not be read; the caller owns `*out`. */
lk_status lk__zeros_of(const lk_loader *loader, int field, int64_t n, lk_tensor **out) LK_NODISCARD;

/** Add the model's outputs for some samples to the sums of the metrics.  `place` are those of the labels, for
 * metrics that take them; LK_NO_VAR: all metrics take `out`. */
lk_status lk__counts_add(const lk_trainer *t, lk__counts *counts, lk_var out, lk_var place,
                         lk_var target) LK_NODISCARD;
void lk__counts_clear(const lk_trainer *t, lk__counts *counts);

/** The mean of each loss over so many samples, from counts->each; NaN of none.  In `counts`, until the next
 * call. */
const double *lk__counts_means(const lk_trainer *t, lk__counts *counts, int64_t samples);

/** A step of so many samples and this sum of their losses, `each` [n_summands] of it, is done: what it counted
 * belongs to the epoch. */
void lk__step_counts_take(lk_trainer *t, int64_t samples, double loss, const double *each);

/** How many sums metric `i` has. */
int64_t lk__counts_length(const lk_trainer *t, int i);

/** Add the sums of the metrics over all ranks, which all then have.  Collective. */
lk_status lk__counts_join_metrics(const lk_trainer *t, lk__counts *counts) LK_NODISCARD;

/** After the sums of train_counts were joined, or loaded, and will be joined again: rank 0 keeps them, those
 * of the others become 0, so that they are not counted once for each rank. */
void lk__train_counts_keep_on_first(lk_trainer *t);

/** As lk_trainer_train_metrics(), but the counts are kept: the epoch may go on.  Collective. */
lk_status lk__train_metrics_so_far(lk_trainer *t, lk_eval *out) LK_NODISCARD;

/** Turn counts that are joined into loss and metrics.  out->json lies in counts->text, until the next call.
 * Not collective: a rank may fail alone. */
lk_status lk__counts_eval(const lk_trainer *t, lk__counts *counts, lk_eval *out) LK_NODISCARD;

/** Gradients, statistics and loss of a micro-batch, shard by shard, into `to`: for models that use a
 * parameter more than once. */
lk_status lk__shards_accumulate(lk_trainer *t, const lk_batch *batch, lk_accumulator *to,
                                lk_step_seconds *time) LK_NODISCARD;

/** Bytes that a loader holds for each sample of a rank, in all its slots. */
int64_t lk__sample_bytes(const lk_loader *loader);

/** Add what a loader has to plan->memory.samples, with the boxes that it gives now: all of these, and what it has
 * for one sample at a time before it is converted.  Errors: LK_EOVERFLOW. */
lk_status lk__samples_plan(const lk_loader *loader, lk_plan *plan) LK_NODISCARD;

/** The number of a plan's rank among all of its layout, and how many there are. */
int lk__plan_rank(const lk_plan *plan, int *ranks);

/** Whether ranks of a plan hold different parameters, each those of its positions. */
bool lk__plan_spreads(const lk_trainer *t, const lk_plan *plan);

/** One pass, forward and backward, into an accumulator that begins with zeros. */
lk_status lk__microbatch_pass(lk_trainer *t, const lk_batch *batch, lk_accumulator *accumulator,
                              lk_step_seconds *time) LK_NODISCARD;

/** This thread's last failure is LK_ENOMEM, on this rank: add to its message what was planned, and what
 * may take less. */
void lk__report_fitting_size(const lk_trainer *t);

/** The same of a trainer that is being made: add that ranks can hold parts of the model. */
void lk__report_memory_use(void);

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
lk_status lk__nonfinite_report(lk_trainer *t, const lk_batch *batch, double loss) LK_NODISCARD;

/** By when the layer of this name ends in a pass, among all; lk_model_layers(): there is none. */
lk_status lk__layer_order(const lk_model *model, const char *name, int64_t *out) LK_NODISCARD;

/** Whether what layers have observed is finite; the loss of training does not depend on it.  Errors:
 * LK_ENAN naming the tensor. */
lk_status lk__state_check(const lk_trainer *t) LK_NODISCARD;

#endif /* LK_TRAIN_TRAINER_H */
