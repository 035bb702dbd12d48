/* Training: batches through a model, gradients into an optimizer.
 *
 * A trainer has a model, a loss, metrics, an optimizer and a loader of batches, and goes step by
 * step:
 *
 *     lk_trainer_new(&(lk_trainer_spec){.model = model, .train = loader, .epochs = epochs},
 *                    "loss=softmax_cross_entropy metrics=accuracy optimizer=adam(rate=0.003)", &trainer);
 *     while (lk_trainer_position(trainer).epoch < epochs)
 *         lk_trainer_step(trainer, &report);
 *
 * **The step.**  The batch is cut into shards that belong to the run.  Ranges of whole shards are
 * *micro-batches*: each is one pass through the model, whose accumulators (gradients, statistics of the
 * batch, the loss) are joined by the fixed tree over the shards.  So the bits of a step do not depend on
 * how the batch was cut into micro-batches, nor on who computes which.  Gradients are of the sum of the
 * samples' losses divided by the number of samples of the whole batch.
 *
 * **Ranks.**  With a communicator its ranks share the shards of each batch (parallel.h), and
 * parameters, state, loss and metrics are the same, bit for bit, for any number of them.  All of them
 * then call lk_trainer_new(), lk_trainer_step(), lk_trainer_train_metrics(), lk_trainer_evaluate() and
 * the functions of jobs together.  A rank that cannot read its samples stops all in that step, which can
 * be tried again; one that fails inside a pass (no memory, an op) ends the job, because others may wait
 * for it there: all get its message, and every later call fails.
 *
 * **Chain lists** (chain.h) train as models do: each rank gives its chain, and a loader of its own data,
 * which may be an empty set.  All ranks go through each batch together; a rank whose chain has an output
 * needs the field "y", and the loss of the step is the sum of those of all outputs.  The tensors of all
 * ranks, RANK.COMPONENT.NAME, are the state that is hashed, saved and loaded, on the same number of ranks.
 *
 * **Double buffering** (parallel.double_buffering).  The gradients of a step travel while the next one is
 * computed, and are followed, with its statistics, one step late; the first step moves nothing.  What waits
 * belongs to the state: a run that goes on from a checkpoint has the bits of one that was not stopped.  The
 * schedule is asked for the step that the gradients are of.
 *
 * After the first steps of each batch size nothing is allocated.
 */
#ifndef LK_TRAIN_H
#define LK_TRAIN_H

#include <lockstep/chain.h>
#include <lockstep/config.h>
#include <lockstep/data.h>
#include <lockstep/loss.h>
#include <lockstep/make_parallel.h>
#include <lockstep/metric.h>
#include <lockstep/optim.h>
#include <lockstep/parallel.h>

LK_BEGIN_DECLS

/** What training works on.  All is borrowed until the trainer is freed. */
typedef struct lk_trainer_spec {
    lk_model *model; /* built for the loader's "x"; NULL: the chain */
    lk_chain *chain; /* built; NULL: the model */
    /* Made of the model: it then runs all passes, on its devices, to the same bits; NULL: this thread does. */
    lk_parallel_model *parallel_model;
    lk_loader *train;
    int64_t epochs;    /* that are planned, for schedules */
    int64_t first;     /* the step that it begins with, and that schedules count from */
    lk_comm *comm;     /* of the ranks that train together; NULL: this one alone, or the chain's */
    lk_pieces pieces;  /* zeros: shards alone */
    int64_t recompute; /* segments of the model that backward runs again; 0: values are kept */
    lk_parallel_options parallel;
} lk_trainer_spec;

/** How it is trained; lk_trainer_descriptor describes the fields.  Without loss or optimizer it is not. */
typedef struct lk_trainer_options {
    lk_config loss;
    lk_configs metrics;
    lk_config optimizer;
    lk_option_names
        layers; /* whose parameters move: lk_model_train_layers(); n 0: as the model is */
    /* Which losses count, whose sum training makes small: "loss", the one above, and layers that add one (an
     * autoencoder, a penalty) by their names; none given: all.  Without "loss" the model runs up to the
     * last of these layers, there are no metrics, and the data needs no "y". */
    lk_option_names losses;
} lk_trainer_options;

/** The table of lk_trainer_options. */
LK_API extern const lk_descriptor lk_trainer_descriptor;

/**
 * One model, loss, optimizer and loader, at a step.
 *
 * lk_job_new() makes one on each rank, or the program does; one thread at a time calls it, the one that
 * has the communicator.  New, step, train_metrics, evaluate and hash are collective over spec.comm, the
 * others are not.
 */
typedef struct lk_trainer lk_trainer;

/**
 * Make a trainer at step 0, with the options of lk_trainer_descriptor as lk_options_parse() reads them:
 * "loss=NAME metrics=NAME,NAME optimizer=NAME", each NAME with its own options in parentheses.  Loss and
 * optimizer are required.  The caller owns `*out`; it owns what it has read.
 *
 * Every rank has the whole training set, of which it takes its part of each batch.  So that no rank trains
 * on other samples unnoticed, the ranks compare what they have: samples (all of a set of up to 256 MiB,
 * of a larger one as many, spread evenly; a set that was compared is not read again), options and seed of
 * the loader, layers, parameters, loss and optimizer.
 *
 * A model that is built and holds nothing (lk_model_hold() was not called) then holds what this rank needs:
 * all of it, but where parallel.spatial cuts samples, of what each position has its own of (local_conv,
 * layer_norm over all of a sample) that of its own tiles.
 *
 * Errors: those of lk_options_parse(), on all ranks; LK_EINVAL for a name in `losses` that is none; LK_ESHAPE
 * and LK_EDTYPE when loader, model, loss and metrics do not fit, naming both sides; those of
 * lk_optimizer_new(); LK_EINVAL when there are more ranks than shards, or not as many as parallel.data says,
 * or in canonical mode when the environment names an algorithm that may give other bits (LK_ALLREDUCE=mpi);
 * LK_ENOTSUP for other layouts; LK_ESTATE for a model that holds something else than the rank needs, and on
 * all ranks when one has other data, or something else, than rank 0: the message names both ranks and what
 * differs; LK_ENOMEM.
 */
LK_API lk_status lk_trainer_new(const lk_trainer_spec *spec, const char *options,
                                lk_trainer **out) LK_NODISCARD;

/** As lk_trainer_new(), from configs, whose options are borrowed until the trainer is freed. */
LK_API lk_status lk_trainer_new_options(const lk_trainer_spec *spec,
                                        const lk_trainer_options *options,
                                        lk_trainer **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_trainer_free(lk_trainer *trainer);

/** Where the training is. */
LK_API lk_position lk_trainer_position(const lk_trainer *trainer);

/** Go on from another step, not before spec.first, with the parameters and the state set by the caller: to
 * resume.  With double buffering the next step then is a first one. */
LK_API lk_status lk_trainer_seek(lk_trainer *trainer, int64_t step) LK_NODISCARD;

/** Where the time of a step went, in seconds. */
typedef struct lk_step_seconds {
    double data, forward, backward, update;
    double
        wait; /* for other ranks: for messages of stages, at the first exchange after backward, and
                    after the update */
    double
        exchange; /* of gradients; where a rank joins just what it updates, that is in `update` */
} lk_step_seconds;

/** What a rank computes by itself, without waiting for others. */
static inline double lk_step_compute_seconds(const lk_step_seconds *t)
{
    return t->data + t->forward + t->backward + t->update;
}

typedef struct lk_step_report {
    int64_t step;    /* that was done, from 0 */
    int64_t samples; /* of the batch */
    double loss;     /* the mean over the batch, before the update */
    /* Of each loss that counts, [lk_trainer_loss()], whose sum it is; until the next step. */
    const double *losses;
    double
        rate; /* of the optimizer; 0 of a first step with double buffering, which moves nothing */
    double norm; /* of the gradient; -1: not computed */
    lk_step_seconds time;
} lk_step_report;

/**
 * Do the next step.  `report` may be NULL.
 *
 * Errors: LK_EINVAL when the model has no parameters: it can only be evaluated; LK_ENAN when the loss is
 * not finite: the message names step and the first tensor that is
 * not, and neither parameters nor state have changed; those of the loader, the model and the
 * optimizer; LK_ENOMEM.
 */
LK_API lk_status lk_trainer_step(lk_trainer *trainer, lk_step_report *report) LK_NODISCARD;

/* ---- looking at the model ---- */

enum { LK_MAX_METRICS = 16 };

/** Loss and metrics over a number of samples. */
typedef struct lk_eval {
    int64_t samples;
    double loss; /* the mean; NaN of no samples */
    /* Of each loss that counts, as lk_step_report has it; until the next call of the function that gave it. */
    const double *losses;
    double value[LK_MAX_METRICS]; /* of each metric, in their order; NaN of one without a number */
    /* Of those that are a table, [[1,0],[2,3]]; until the next call of the function that gave it. */
    const char *json[LK_MAX_METRICS];
} lk_eval;

/** Loss and metrics of the steps since the last call of this function; then start anew.  Collective: fails
 * on all ranks or on none, and after a failure of a metric, or of memory for it, can be called again. */
LK_API lk_status lk_trainer_train_metrics(lk_trainer *trainer, lk_eval *out) LK_NODISCARD;

/**
 * Loss and metrics of all samples of a loader, with running statistics and without dropout.
 *
 * Ranks share each batch as in a step, and go through a batch that is larger than those of training in parts
 * of that size.  A failure of one rank is that of all.
 *
 * Errors: those of the loader and the model; LK_ESHAPE when its samples are not what the model takes;
 * LK_ESTATE when ranks have other samples, as lk_trainer_new().
 */
LK_API lk_status lk_trainer_evaluate(lk_trainer *trainer, lk_loader *loader,
                                     lk_eval *out) LK_NODISCARD;

/** The name of loss i of those that count: "loss" first, if it does, then layers that add one; NULL behind
 * the last. */
LK_API const char *lk_trainer_loss(const lk_trainer *trainer, int64_t i);

/** The name of metric i, and whether lower is better; NULL behind the last. */
LK_API const char *lk_trainer_metric(const lk_trainer *trainer, int i, bool *lower_is_better);

/** Whether metric i has a number; one that has none is a table, lk_eval.json. */
LK_API bool lk_trainer_metric_is_number(const lk_trainer *trainer, int i);

/** The ranks, the optimizer, and the model or the chain, of which one is NULL; borrowed. */
LK_API const lk_mesh *lk_trainer_mesh(const lk_trainer *trainer);
LK_API lk_optimizer *lk_trainer_optimizer(const lk_trainer *trainer);
LK_API lk_model *lk_trainer_model(const lk_trainer *trainer);
LK_API lk_chain *lk_trainer_chain(const lk_trainer *trainer);

/**
 * The state of the run as 64 bits (docs/reference/numerics.md): step, parameters, the model's state, the
 * optimizer's slabs and numbers.  Two runs with the same hash go on the same way.  In fast mode the
 * number of ranks is in it too, and the wire.
 *
 * Collective.  Each rank reads its own copies; ranks of a node that share one read a share of it each.
 *
 * Errors: LK_ESTATE on all ranks, naming one whose copies have another hash than those of rank 0: a
 * machine computes wrongly; those of communication.
 */
LK_API lk_status lk_trainer_hash(lk_trainer *trainer, uint64_t *out) LK_NODISCARD;

/* ---- a whole run ---- */

/** An experiment with its data, model and trainer.  The program makes one on each rank; one thread at a
 * time, the one that has the communicator.  New and run are collective, the others are not. */
typedef struct lk_job lk_job;

/**
 * Open the data of an experiment, build its model and make its trainer.
 *
 * Collective over `comm`, the ranks that train together; NULL: this one alone.  Experiment and
 * communicator are borrowed.  The caller owns `*out`.  Errors: those of lk_dataset_open(),
 * lk_loader_new(), lk_model_build(), lk_model_hold() and lk_trainer_new(), on all ranks; LK_ESTATE when a
 * rank has another experiment or other data than rank 0: all sets are compared as lk_trainer_new() does.
 */
LK_API lk_status lk_job_new(const lk_experiment *experiment, lk_comm *comm,
                            lk_job **out) LK_NODISCARD;

/** What a job is made of; all is borrowed until it is freed. */
typedef struct lk_job_spec {
    const lk_experiment *experiment;
    const char *text; /* an experiment as YAML, in place of `experiment`; NULL: there is none */
    lk_comm *comm;    /* NULL: this rank alone, or the chain's */
    lk_chain
        *chain; /* built: what is trained where the file says `model: chain`; NULL: the model */
    /* By lk_split: the sets, in place of `data:`.  With one of them the job opens none itself; NULL: there
     * is no such set.  Ranks of a chain have data of their own, or empty sets. */
    lk_dataset *set[LK_N_SPLITS];
} lk_job_spec;

/**
 * As lk_job_new(), with what a program brings itself.  A job of a chain list runs, saves and resumes as one
 * of a model does, on the number of ranks that it was begun with.
 *
 * Errors: those of lk_job_new(), and of lk_experiment_parse() for `text`; LK_EINVAL on all ranks when both
 * a model and a chain are given, or both or none of `experiment` and `text`.
 */
LK_API lk_status lk_job_new_spec(const lk_job_spec *spec, lk_job **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_job_free(lk_job *job);

/** The trainer; with phases that of the one that runs, until the next begins.  Borrowed. */
LK_API lk_trainer *lk_job_trainer(const lk_job *job);

/** The phase of the experiment that the trainer is for; NULL: it has none.  Borrowed. */
LK_API const lk_phase *lk_job_phase(const lk_job *job);

/**
 * Go to another phase, by its number, at the step that it begins with if none before it ends early, to look
 * at it or to evaluate by its losses; lk_job_run() goes through them by itself.  The model stays as it is.
 *
 * Collective over the job's communicator.  Errors: LK_EINVAL for a phase that is not there; LK_ESTATE while
 * lk_job_run() is under way; those of lk_trainer_new(), after which the job can only be freed.
 */
LK_API lk_status lk_job_set_phase(lk_job *job, int64_t phase) LK_NODISCARD;

LK_API const lk_experiment *lk_job_experiment(const lk_job *job);

/** The set that evaluation uses while training goes on: the validation set, or the test set if there
 * is none; NULL if there is neither.  Its name in `*name`. */
LK_API lk_loader *lk_job_evaluation(const lk_job *job, const char **name);

/** The loader of one of the sets; NULL if there is none. */
LK_API lk_loader *lk_job_loader(const lk_job *job, lk_split split);

/** lk_experiment_identity() with the content of the training set; of a chain with what it consists of on this
 * rank, so that each rank has its own. */
LK_API lk_status lk_job_identity(lk_job *job, uint64_t *out) LK_NODISCARD;

/** The end of an epoch, an evaluation within one, or the part of one in which `train.steps` end. */
typedef struct lk_epoch_report {
    int64_t epoch;        /* how many are complete */
    int64_t step;         /* how many are done */
    bool complete;        /* the end of an epoch */
    lk_eval train;        /* what its steps have seen, or those of the part; samples 0: not there */
    bool evaluated;       /* `test` is there */
    lk_eval test;         /* of the evaluation set */
    bool best;            /* the evaluation is better than all before */
    double rate;          /* of the last step */
    double seconds;       /* since the run began or was resumed */
    double samples_per_s; /* of the epoch's steps since then */
    uint64_t state;       /* lk_trainer_hash() */
    int ranks;
    /* [ranks] of a complete epoch's steps since then; NULL: not complete.  Borrowed until the next
     * report. */
    const lk_step_seconds *rank_time;
    int slowest; /* the rank that computed longest; -1: not complete, or alone */
} lk_epoch_report;

/** Callbacks during a run, on each rank; the thread is that of lk_job_run(), but for `message`.  All may
 * be NULL. */
typedef struct lk_run_callbacks {
    void *arg;
    void (*step)(void *arg, const lk_job *job, const lk_step_report *report);
    void (*epoch)(void *arg, const lk_job *job, const lk_epoch_report *report);
    bool (*stop)(void *arg); /* asked before the first step and after each: whether to end soon; all
                                ranks then agree on the step, and save a checkpoint */
    void (*message)(void *arg,
                    const char *text); /* warnings and the like, a line; on rank 0, perhaps
                                                     by another thread while this one waits */
} lk_run_callbacks;

/** Files of a run that are not on disk as they should be: bits. */
typedef enum lk_missing {
    LK_MISSING_CHECKPOINT = 1, /* that of the last step */
    LK_MISSING_WEIGHTS = 2,
    LK_MISSING_BEST = 4,
    LK_MISSING_REPORT = 8,
    LK_MISSING_METRICS = 16,
    LK_MISSING_EVENTS = 32
} lk_missing;

/** How a run ended. */
typedef struct lk_run_result {
    int64_t epochs, steps; /* that were done, since the beginning or the checkpoint */
    bool done; /* all steps were done, or it stopped as it was asked to: if lk_job_run() fails all
                        the same, only files are missing */
    unsigned missing; /* those that could not be written: bits of lk_missing */
    bool stopped;     /* a rank's callback, or the file STOP in the output folder, asked for it when
                        there was something left to do */
    bool saved;       /* a checkpoint of the last step is on disk */
    int64_t resumed;  /* the step of the checkpoint that it began with; -1: none */
    bool early;       /* nothing improved any more */
    lk_epoch_report last; /* a part of an epoch only if there is no other */
    double best;          /* of what early stopping looks at; NaN if it never was evaluated */
    int64_t best_epoch;   /* when */
    uint64_t state;       /* lk_trainer_hash() */
} lk_run_result;

/**
 * Train from where the trainer is, or with `train.resume` from the newest checkpoint, to the end of
 * the experiment.  Collective over the ranks of the job.
 *
 * With an output folder, rank 0 writes metrics.jsonl (a line for each `log` period and each report but that
 * of a part of an epoch, of which a run that goes on reports the whole), an event file for TensorBoard,
 * best.safetensors after each best evaluation, and at the end weights.safetensors and report.html; a run that
 * stops or fails leaves a report as far as it came. Checkpoints (checkpoint.h) are written by all ranks while
 * training goes on; the state that they hold is that of the whole run, so that what follows has the bits of a
 * run that was never interrupted, on any number of ranks (of a chain: its own).  A file STOP in the output
 * folder ends the run as the callback `stop` does; it is removed then.  `callbacks` and `result` may be NULL.
 *
 * LK_OK says that the run is done and on disk, or that it stopped when asked with its checkpoint on disk
 * (result->saved; without a folder nothing is).  A file that cannot be written is a warning, and the run
 * goes on (unless train.checkpoint.on_error is `stop`): it is tried again, and LK_EIO at the end says
 * what is still missing.  A run that is resumed mends what was.
 *
 * Errors: those of lk_trainer_step() and of the files, on all ranks; LK_ESTATE if the ranks' state
 * hashes differ (a hardware fault, or different binaries).
 */
LK_API lk_status lk_job_run(lk_job *job, const lk_run_callbacks *callbacks,
                            lk_run_result *result) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_TRAIN_H */
