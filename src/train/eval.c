/* Loss and metrics over samples: of the steps of an epoch (lk_trainer_train_metrics()) and of a whole set
 * (lk_trainer_evaluate()).  Both are collective; lk_job_run() calls them, or the program, on the trainer's
 * thread.
 *
 * A metric adds up whole numbers over samples, its sums; those of all ranks are joined before they become a
 * value.
 *
 * An evaluation is steps without backward: ranks share the shards of each batch, and the tiles of its samples,
 * as in a step (step.c); passes are on the same tape, which does not record them; and votes and losses of
 * all ranks are exchanged behind each batch, so that all stop in the same one.
 */
#include "base/fpenv.h"
#include "base/memory/rehearsal.h"
#include "train/batches.h"
#include "train/pass.h"
#include "train/same.h"

#include <math.h>
#include <string.h>

static const void *metric_options(const lk_trainer *t, int i)
{
    return t->options.metrics.item[i].options;
}

lk_status lk__counts_add(const lk_trainer *t, lk__counts *counts, lk_var out, lk_var place,
                         lk_var target)
{
    const lk_tensor *y = NULL, *at = NULL, *want = NULL;
    if (t->n_metrics == 0 || t->mesh->at[LK_AXIS_FEATURES] > 0) /* the first along them counts */
        return LK_OK;
    LK_TRY(lk_contiguous(out, &out));
    LK_TRY(lk_value(out, &y));
    LK_TRY(lk_value(target, &want));
    if (lk_is_var(place))
        LK_TRY(lk_value(place, &at));
    for (int i = 0; i < t->n_metrics && !lk__rehearses(); i++) {
        const lk_metric *m = t->metric[i];
        if (at && m->add_places)
            m->add_places(metric_options(t, i), lk_tensor_count(at), lk_tensor_data(at),
                          counts->sums[i]);
        else
            LK_TRY(m->add(metric_options(t, i), y, want, counts->sums[i]));
    }
    return LK_OK;
}

int64_t lk__counts_length(const lk_trainer *t, int i)
{
    return t->metric[i]->numbers(metric_options(t, i), t->out);
}

void lk__counts_clear(const lk_trainer *t, lk__counts *counts)
{
    counts->samples = 0;
    counts->loss = 0;
    memset(counts->each, 0, (size_t)t->n_summands * sizeof *counts->each);
    for (int i = 0; i < t->n_metrics; i++)
        memset(counts->sums[i], 0, (size_t)lk__counts_length(t, i) * sizeof(double));
}

const double *lk__counts_means(const lk_trainer *t, lk__counts *counts, int64_t samples)
{
    for (int64_t i = 0; i < t->n_summands; i++)
        counts->mean[i] = samples > 0 ? counts->each[i] / (double)samples : (double)NAN;
    return counts->mean;
}

void lk__step_counts_take(lk_trainer *t, int64_t samples, double loss, const double *each)
{
    t->train_counts.samples += samples;
    t->train_counts.loss += loss;
    for (int64_t i = 0; i < t->n_summands; i++)
        t->train_counts.each[i] += each[i];
    for (int i = 0; i < t->n_metrics; i++)
        for (int64_t k = 0; k < lk__counts_length(t, i); k++)
            t->train_counts.sums[i][k] += t->step_counts.sums[i][k];
}

lk_status lk__counts_join_metrics(const lk_trainer *t, lk__counts *counts)
{
    lk_comm *comm = lk__trainer_comm(t);
    for (int i = 0; comm && i < t->n_metrics; i++)
        LK_TRY(lk_allreduce(comm, NULL, counts->sums[i], lk__counts_length(t, i), LK_F64,
                            LK_REDUCE_SUM, t->metric[i]->descriptor.name));
    return LK_OK;
}

lk_status lk__counts_eval(const lk_trainer *t, lk__counts *counts, lk_eval *out)
{
    lk_tensor_type io = t->out;
    *out = (lk_eval){.samples = counts->samples, .loss = (double)NAN};
    if (counts->samples > 0)
        out->loss = counts->loss / (double)counts->samples;
    out->losses = lk__counts_means(t, counts, counts->samples);
    lk_arena_free(counts->text);
    counts->text = NULL;
    LK_TRY(lk_arena_new(&counts->text));
    for (int i = 0; i < t->n_metrics; i++) {
        const lk_metric *m = t->metric[i];
        out->value[i] = m->value ? m->value(metric_options(t, i), io, counts->sums[i])
                                 : (double)NAN;
        if (m->json)
            LK_TRY(m->json(metric_options(t, i), io, counts->sums[i], counts->text, &out->json[i]));
    }
    return LK_OK;
}

void lk__train_counts_keep_on_first(lk_trainer *t)
{
    for (int i = 0; lk__trainer_rank(t) > 0 && i < t->n_metrics; i++)
        memset(t->train_counts.sums[i], 0, (size_t)lk__counts_length(t, i) * sizeof(double));
}

/* Whatever fails behind the join, the counts are as before, over all ranks, and can be asked for again.
 * Callers have LK_FP_GUARD(). */
lk_status lk__train_metrics_so_far(lk_trainer *t, lk_eval *out)
{
    LK_TRY(lk__counts_join_metrics(t, &t->train_counts));
    lk_status st = lk__counts_eval(t, &t->train_counts, out);
    lk__train_counts_keep_on_first(t);
    return LK_TRACE(lk_agree(lk__trainer_comm(t), st));
}

lk_status lk_trainer_train_metrics(lk_trainer *t, lk_eval *out)
{
    LK_FP_GUARD();
    LK_TRY(lk__train_metrics_so_far(t, out));
    lk__counts_clear(t, &t->train_counts);
    return LK_OK;
}

/* ---- evaluation ---- */

/* The pass, on a tape that does not record. */
static lk_status microbatch_pass(lk_trainer *t, const lk_batch *batch, int64_t k)
{
    lk_var x;
    lk__pass_out result = {.counts = &t->eval_counts, .microbatch = k, .seeds = t->room.seeds};
    int64_t losses;
    const lk_pass_parts *parts = lk__pass_parts(t, batch, &t->room);
    t->room.parts.batch = NULL; /* nothing is taken of the whole batch */
    LK_TRY(lk__pass_enter(t, t->tape, parts, batch, &x, &result.y));
    lk_pass pass = {
        .tape = t->tape, .first = batch->first, .parts = parts, .terms = lk__pass_terms(t)};
    if (t->spec.parallel_model)
        LK_TRY(lk_parallel_model_forward(t->spec.parallel_model, &pass, x, &result.out));
    else
        LK_TRY(lk_model_forward(t->spec.model, &pass, x, &result.out));
    return LK_TRACE(lk__pass_take(t, &result, &losses));
}

lk_status lk__eval_microbatch(lk_trainer *t, const lk_batch *batch, int k)
{
    lk_tape_reset(t->tape);
    bool recorded = lk_tape_set_recording(t->tape, false);
    lk_status st = microbatch_pass(t, batch, k);
    (void)lk_tape_set_recording(t->tape, recorded);
    return LK_TRACE(st);
}

/* Some samples of batch `number` of the loader, as a batch: its losses go to eval_counts.  In passes a
 * rank waits for those alone that share samples with it. */
static lk_status eval_batch(lk_trainer *t, lk_loader *loader, int64_t number, lk_range samples)
{
    int64_t shard_size = lk_loader_shard_size(t->spec.train);
    int64_t shards = (samples.n - 1) / shard_size + 1;
    lk_batch batch;
    lk_status unread;
    lk__batch_work work = {.loader = loader,
                           .number = number,
                           .from = samples.first,
                           .size = samples.n,
                           .shards = lk__groups_deal_batch(t->groups, shards, samples.n),
                           .communicates = t->mesh->n[LK_AXIS_SPACE] > 1 || t->pipeline};
    lk_step_seconds time = {0};
    lk_status st = t->pipeline ? lk__pipeline_run(t, &work, &batch, &time, &unread)
                               : lk__batch_run(t, &work, &batch, &time, &unread);
    if (st != LK_OK && work.communicates)
        LK_TRY(lk__pass_failed(t, st));
    if (st == LK_ENOMEM)
        lk__report_fitting_size(t);
    LK_TRY(lk__losses_exchange(t, st == LK_OK ? unread : st));
    lk__losses_add(t, t->eval_counts.each);
    return LK_OK;
}

/* All batches of a loader, larger ones than those of training in parts of that size: no pass is larger than
 * one of a step. */
static lk_status eval_batches(lk_trainer *t, lk_loader *loader)
{
    int64_t most = lk_loader_batch_size(t->spec.train, 0);
    for (int64_t i = 0; i < lk_loader_batches(loader); i++) {
        int64_t size = lk_loader_batch_size(loader, i);
        for (int64_t from = 0; from < size; from += most) {
            lk_range samples = {from, size - from < most ? size - from : most};
            LK_TRY(t->chained ? lk__chained_eval(t, loader, i, samples)
                              : eval_batch(t, loader, i, samples));
        }
        t->eval_counts.samples += size;
    }
    return LK_OK;
}

/* Passes over a loader that gives what this rank takes of samples. */
static lk_status eval_loader(lk_trainer *t, lk_loader *loader)
{
    LK_TRY(lk_agree(lk__trainer_comm(t), lk__pass_set_boxes(t, loader, true)));
    if (t->groups)
        lk__groups_weights_changed(t->groups);
    lk_status st = eval_batches(t, loader);
    lk_tape_reset(t->tape); /* which has samples of the loader */
    lk_status whole = lk__pass_set_boxes(t, loader, loader == t->spec.train);
    LK_TRY(st);
    return LK_TRACE(lk_agree(lk__trainer_comm(t), whole));
}

lk_status lk_trainer_evaluate(lk_trainer *t, lk_loader *loader, lk_eval *out)
{
    LK_FP_GUARD();
    LK_CHECK(loader, LK_EINVAL, "loader is NULL");
    lk_comm *comm = lk__trainer_comm(t);
    LK_TRY(t->chained ? lk__loader_compare_length(comm, "the set to evaluate", loader)
                      : lk__loader_compare(comm, "the set to evaluate", loader));
    if (t->chained)
        LK_TRY(lk_agree(comm, lk__chained_check_loader(t, loader)));
    else
        LK_TRY(lk__pass_compare(t, "the set to evaluate", loader));
    lk__counts_clear(t, &t->eval_counts);
    LK_TRY(eval_loader(t, loader));
    LK_TRY(lk__counts_join_metrics(t, &t->eval_counts));
    for (int64_t i = 0; i < t->n_summands; i++)
        t->eval_counts.loss += t->eval_counts.each[i];
    return LK_TRACE(lk_agree(comm, lk__counts_eval(t, &t->eval_counts, out)));
}
