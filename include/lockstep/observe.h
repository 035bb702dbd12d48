/* What a program observes on all ranks: sums and metrics by name, evaluators, means over time, and when
 * to stop.
 *
 *     static lk_status evaluate(void *net, const lk_batch *batch, lk_summary *summary)
 *     {
 *         ... y = the network of batch->x, loss = the sum of its samples' losses ...
 *         LK_TRY(lk_summary_add(summary, "loss", loss, batch->n));
 *         LK_TRY(lk_summary_add_metric(summary, NULL, "accuracy", NULL, y, batch->y));
 *         return LK_OK;
 *     }
 *
 *     lk_multi_node_evaluate(comm, it, evaluate, net, summary);
 *     lk_summary_value(summary, "accuracy", &accuracy);
 *
 * What ranks have added up is joined exactly: a mean is the sum over the samples of all ranks divided by
 * their number, however they are shared out, and has the same bits on any number of ranks that add the
 * same numbers.  (ChainerMN's evaluator takes the mean of the ranks' means, which is another number where
 * ranks have different numbers of samples.)
 *
 * Calls are of the thread that has the communicator.  What is collective is marked; a failure on one rank
 * is then that of all (lk_agree()).
 */
#ifndef LK_OBSERVE_H
#define LK_OBSERVE_H

#include <lockstep/iterator.h>
#include <lockstep/metric.h>

LK_BEGIN_DECLS

/* ---- sums by name ---- */

enum { LK_SUMMARY_NAME = 64 };

/** Sums, counts and metrics by name.  Made by a program, for its evaluators or to add to it itself; one
 * thread at a time.  Not collective, but for lk_summary_join(). */
typedef struct lk_summary lk_summary;

/** Make an empty one.  The caller owns it.  Errors: LK_ENOMEM. */
LK_API lk_status lk_summary_new(lk_summary **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_summary_free(lk_summary *summary);

/** Forget all that was added, and all names. */
LK_API void lk_summary_clear(lk_summary *summary);

/**
 * Add the sum of some value over `count` samples to what was added under this name.  Nothing is rounded.
 *
 * Errors: LK_EINVAL for a name that is NULL, empty or has LK_SUMMARY_NAME bytes or more, for a negative
 * count, and for the name of a metric; LK_EOVERFLOW; LK_ESTATE after lk_summary_join(); LK_ENOMEM.
 */
LK_API lk_status lk_summary_add(lk_summary *summary, const char *name, double sum,
                                int64_t count) LK_NODISCARD;

/**
 * Add samples to a metric of metric.h, by its name and its options as lk_config_parse() reads them; NULL:
 * all defaults.  `name` is what it is called here; NULL: as the metric.
 *
 * y and target are contiguous, [n, ...], as the metric takes them: what the network gives for n samples,
 * and what it should.  Errors: those of lk_config_parse(), and of the metric; LK_EINVAL for another metric
 * or other options under a name that there is; LK_ESHAPE for samples of another shape than before; others as
 * lk_summary_add().
 */
LK_API lk_status lk_summary_add_metric(lk_summary *summary, const char *name, const char *metric,
                                       const char *options, const lk_tensor *y,
                                       const lk_tensor *target) LK_NODISCARD;

/** As lk_summary_add_metric(), of a config, also of a metric of the program's own, which is borrowed until
 * the summary is cleared. */
LK_API lk_status lk_summary_add_metric_config(lk_summary *summary, const char *name,
                                              const lk_config *metric, const lk_tensor *y,
                                              const lk_tensor *target) LK_NODISCARD;

/**
 * Join the sums of all ranks: each then has them all, and the same values.
 *
 * Collective; comm NULL: this rank alone.  A rank that has added nothing, for want of samples, gets the
 * names of the others; others must have the same names, in any order.  Nothing can be added any more
 * before lk_summary_clear().
 *
 * Errors: LK_ESTATE when it was joined already, and for a rank that lacks a name, has one more, or has
 * another metric or other options under one, naming it and the ranks; LK_EOVERFLOW for samples of all ranks
 * beyond 64 bits; LK_EFPENV, LK_ENOMEM; and those of communication.
 */
LK_API lk_status lk_summary_join(lk_summary *summary, lk_comm *comm) LK_NODISCARD;

/** How many names there are, and name number `i`, in the order of their bytes; NULL if there is none. */
LK_API int64_t lk_summary_size(const lk_summary *summary);
LK_API const char *lk_summary_name(const lk_summary *summary, int64_t i);

/**
 * The value of a name: the sum divided by the count, or what the metric makes of its numbers.  NaN where no
 * sample was added, and for a metric that is a table.
 *
 * Errors: LK_ESTATE before lk_summary_join(); LK_EINVAL for a name that does not exist, listing the others.
 */
LK_API lk_status lk_summary_value(const lk_summary *summary, const char *name,
                                  double *out) LK_NODISCARD;

/** The samples of a name that is no metric, and the `n` numbers of one that is (confusion: rows of a table);
 * borrowed.  Errors: as lk_summary_value(). */
LK_API lk_status lk_summary_count(const lk_summary *summary, const char *name,
                                  int64_t *out) LK_NODISCARD;
LK_API lk_status lk_summary_numbers(const lk_summary *summary, const char *name,
                                    const double **numbers, int64_t *n) LK_NODISCARD;

/* ---- evaluators ---- */

/** Add what there is to say of a batch to a summary.  Makes no collective call, unless all ranks have as
 * many batches. */
typedef lk_status lk_evaluate_fn(void *context, const lk_batch *batch, lk_summary *summary);

/**
 * Go through this rank's batches, and join what was added: `summary` is cleared first, and in the end the
 * same on all ranks.
 *
 * `it` is one that does not repeat, and begins anew; NULL on a rank that has no samples.
 *
 * Collective; comm NULL: this rank alone.  Errors: LK_EINVAL for an iterator that repeats; those of
 * lk_iterator_next() and of `evaluate`, of any rank on all of them; others as lk_summary_join().
 */
LK_API lk_status lk_multi_node_evaluate(lk_comm *comm, lk_iterator *it, lk_evaluate_fn *evaluate,
                                        void *context, lk_summary *summary) LK_NODISCARD;

/** What a rank has calculated of one of its batches. */
typedef struct lk_batch_result {
    int64_t batch; /* number of the batch on its rank */
    int rank;
    const void *bytes;
    int64_t n;
} lk_batch_result;

/** An evaluation that cannot be a sum: ChainerMN's GenericMultiNodeEvaluator. */
typedef struct lk_generic_evaluator {
    int root; /* the rank that aggregates */
    void *context;
    /* Calculate something of a batch: a new block `*bytes` of lk_alloc(), of `*n` bytes, which is freed
     * by the call. */
    lk_status (*calc_local)(void *context, const lk_batch *batch, void **bytes, int64_t *n);
    /* On the root, once: the results of all batches of all ranks, borrowed; the first batch of each rank
     * in the order of ranks, then the second, and so on. */
    lk_status (*aggregate)(void *context, const lk_batch_result *result, int64_t n);
    /* On the root, after each of its batches; NULL: not called. */
    void (*progress_hook)(void *context, const lk_batch *batch);
} lk_generic_evaluator;

/**
 * Go through the batches of all ranks, which may have different numbers of them; gather on the root what
 * `calc_local` gives for each, and call `aggregate` there.  Other ranks get nothing.
 *
 * `it` as for lk_multi_node_evaluate().  Collective; comm NULL: this rank alone, root 0.  Errors: LK_EINVAL
 * for an iterator that repeats, a root that is no rank, and a missing function; those of
 * lk_iterator_next() and of the functions, LK_ENOMEM, of any rank on all of them; and those of
 * communication.
 */
LK_API lk_status lk_generic_multi_node_evaluate(lk_comm *comm, lk_iterator *it,
                                                const lk_generic_evaluator *evaluator) LK_NODISCARD;

/* ---- values over time ---- */

/**
 * Make one number of the values that all ranks have observed since the last time: value[first[r] ...
 * first[r + 1]) are those of rank r of `size`, in the order they came; there is at least one.
 */
typedef lk_status lk_aggregate_fn(void *context, const double *value, const int64_t *first,
                                  int size, double *out);

/** Collects values on all ranks and joins them from time to time: ChainerMN's ObservationAggregator.  Made
 * by a program with a loop of its own on each rank, on the thread that has the communicator.  What is
 * collective is marked. */
typedef struct lk_aggregator lk_aggregator;

/**
 * Make an aggregator whose time is `every` so many steps or epochs.  `aggregate` is called with `context`
 * on rank 0 and its result goes to all; NULL: the mean of all values of all ranks, exactly.
 *
 * Collective over `comm`, which is borrowed; NULL: this rank alone.  The caller owns `*out`.  Errors:
 * LK_EINVAL for a period that is never due, LK_ENOMEM; of any rank on all of them; LK_ESTATE for another
 * period on a rank, or for a function on some only, naming the ranks.
 */
LK_API lk_status lk_aggregator_new(lk_comm *comm, lk_period every, lk_aggregate_fn *aggregate,
                                   void *context, lk_aggregator **out) LK_NODISCARD;

/** Not collective.  NULL is allowed. */
LK_API void lk_aggregator_free(lk_aggregator *a);

/**
 * Observe a value behind a step; NULL: there is none on this rank.  If it is time, `*due` is true, `*out` is
 * what became of all values since the last time, and those are forgotten; unless no rank has observed
 * any.
 *
 * Collective where it is time, as `at` says, which must be so on all ranks in the same call: with as many
 * batches on each (lk_scatter_dataset() with equal lengths), or in steps.  Errors: LK_ENOMEM; those of
 * `aggregate` on all ranks; LK_EFPENV; and those of communication.  `*due` is then false; where it was time,
 * the values since the last time are dropped on all ranks.
 */
LK_API lk_status lk_aggregator_observe(lk_aggregator *a, const lk_position *at, const double *value,
                                       double *out, bool *due) LK_NODISCARD;

/**
 * What was observed since the last time, as a tensor of a state, to save it or to load one: the same on
 * all ranks.
 *
 * Collective.  `*tensor` borrows the name, and its data from `a`.  Errors: LK_ESTATE, on all ranks, when a
 * rank has observed values for a function, whose number is not known beforehand: save when it has been
 * time; and those of communication.
 */
LK_API lk_status lk_aggregator_state(lk_aggregator *a, const char *name,
                                     lk_state_tensor *tensor) LK_NODISCARD;

/** Go on from what lies in the data of lk_aggregator_state(), such as a checkpoint that was loaded to it,
 * which may be of another number of ranks.  Not collective, but all ranks do it.  Errors: LK_EINVAL for
 * what is no such state. */
LK_API lk_status lk_aggregator_restore(lk_aggregator *a) LK_NODISCARD;

/* ---- when to stop ---- */

typedef enum lk_stop_mode { LK_STOP_AUTO, LK_STOP_MIN, LK_STOP_MAX } lk_stop_mode;

/** When to stop early; lk_early_stop_trigger_descriptor describes the fields. */
typedef struct lk_early_stop_trigger_options {
    const char
        *monitor;     /* the name of what is observed, from which mode auto follows; NULL: loss */
    int mode;         /* lk_stop_mode: whether less is better, or more */
    int64_t patience; /* checks without progress after which to stop */
    double change;    /* that counts as progress: more than this */
    const char *check_text, *max_text; /* as written */
    lk_period check;                   /* when to look at what was observed */
    lk_period max;                     /* when to stop in any case */
} lk_early_stop_trigger_options;

/** The table of lk_early_stop_trigger_options, with its defaults: loss, auto, 3, 0, "1 epoch" and
 * "100 epochs". */
LK_API extern const lk_descriptor lk_early_stop_trigger_descriptor;

/** Says when what all ranks observe gets no better: ChainerMN's MultiNodeEarlyStoppingTrigger.  Made by a
 * program with a loop of its own on each rank, on the thread that has the communicator.  What is
 * collective is marked. */
typedef struct lk_early_stop_trigger lk_early_stop_trigger;

/**
 * Make a trigger, with the options of lk_early_stop_trigger_descriptor as lk_options_parse() reads them,
 * such as "monitor=accuracy patience=5 check=\"500 steps\""; NULL: all defaults.
 *
 * Mode auto is max for a metric of metric.h whose greater values are better, and for a name with
 * "accuracy" in it; else min.
 *
 * Collective over `comm`, which is borrowed; NULL: this rank alone.  The caller owns `*out`.  Errors: those
 * of lk_options_parse(); LK_EINVAL for what is no period, and for a check that is never due; LK_ENOMEM; of
 * any rank on all of them; LK_ESTATE for options that differ between ranks, naming one and the ranks.
 */
LK_API lk_status lk_early_stop_trigger_new(lk_comm *comm, const char *options,
                                           lk_early_stop_trigger **out) LK_NODISCARD;

/** As lk_early_stop_trigger_new(), from a struct, of which the texts of periods are not read. */
LK_API lk_status lk_early_stop_trigger_new_options(lk_comm *comm,
                                                   const lk_early_stop_trigger_options *options,
                                                   lk_early_stop_trigger **out) LK_NODISCARD;

/** Not collective.  NULL is allowed. */
LK_API void lk_early_stop_trigger_free(lk_early_stop_trigger *t);

/**
 * Observe a value behind a step; NULL: there is none on this rank.  `*stop` is true, on all ranks, when it is
 * time for a check and the mean of all values of all ranks since the last one is the `patience`-th, or a
 * later one, that is not better than the best before; and when it is time for `max`.
 *
 * A NaN is not better than anything.  Where no rank has observed a value, there is no check.  The rule is
 * that of train.early_stop of an experiment.
 *
 * Collective where it is time for a check, as lk_aggregator_observe() is.  Errors: as that.
 */
LK_API lk_status lk_early_stop_trigger_observe(lk_early_stop_trigger *t, const lk_position *at,
                                               const double *value, bool *stop) LK_NODISCARD;

/** The best mean so far; NaN: there was none.  Not collective. */
LK_API double lk_early_stop_trigger_best(const lk_early_stop_trigger *t);

/** Save and restore, as lk_aggregator_state() and lk_aggregator_restore(). */
LK_API lk_status lk_early_stop_trigger_state(lk_early_stop_trigger *t, const char *name,
                                             lk_state_tensor *tensor) LK_NODISCARD;
LK_API lk_status lk_early_stop_trigger_restore(lk_early_stop_trigger *t) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_OBSERVE_H */
