/* Loss and metrics over samples: of the steps of an epoch (lk_trainer_train_metrics()) and of a whole set
 * (lk_trainer_evaluate()).  Both are collective; lk_job_run() calls them, or the program, on the trainer's
 * thread.
 *
 * A metric adds up whole numbers over samples, its sums; those of all ranks are joined before they become a
 * value.
 */
#include "base/fpenv.h"
#include "base/grow.h"
#include "base/rehearsal.h"
#include "train/pass.h"
#include "train/same.h"

#include <math.h>
#include <string.h>

static const void *metric_options(const lk_trainer *t, int i)
{
    return t->options.metrics.item[i].options;
}

lk_status lk__counts_add(const lk_trainer *t, lk__counts *counts, lk_var out, lk_var target)
{
    const lk_tensor *y = NULL, *want = NULL;
    if (t->n_metrics == 0)
        return LK_OK;
    LK_TRY(lk_contiguous(out, &out));
    LK_TRY(lk_value(out, &y));
    LK_TRY(lk_value(target, &want));
    for (int i = 0; i < t->n_metrics && !lk__rehearses(); i++)
        LK_TRY(t->metric[i]->add(metric_options(t, i), y, want, counts->sums[i]));
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
    LK_TRY(lk_agree(lk__trainer_comm(t), st));
    return LK_OK;
}

lk_status lk_trainer_train_metrics(lk_trainer *t, lk_eval *out)
{
    LK_FP_GUARD();
    LK_TRY(lk__train_metrics_so_far(t, out));
    lk__counts_clear(t, &t->train_counts);
    return LK_OK;
}

/* ---- evaluation: each replica has a range of batches; ranks of a chain go through all together ---- */

/* The parts of a pass over `n` samples. */
static const lk_pass_parts *eval_parts(lk_trainer *t, int64_t n)
{
    int64_t shard_size = lk_loader_shard_size(t->spec.train);
    if (!t->plan->tiling)
        return NULL;
    t->layer_parts = lk__groups_eval_parts(t->groups, n, shard_size, t->owners, t->dealt);
    return &t->layer_parts;
}

/* How a loss of it is joined over the ranks along space. */
static lk__deal eval_deal(const lk_trainer *t, int64_t n, bool tiled)
{
    int64_t shard_size = lk_loader_shard_size(t->spec.train);
    if (tiled)
        return (lk__deal){1, NULL, 1, 0, t->plan->tiling};
    if (t->plan->tiling && t->layer_parts.samples)
        return (lk__deal){.shards = (n + shard_size - 1) / shard_size, .first = t->dealt};
    return (lk__deal){.shards = 1};
}

/* One batch of an evaluation: its losses, on the first of the ranks that share its samples; 0 elsewhere. */
static lk_status eval_pass(lk_trainer *t, const lk_batch *batch, double *each)
{
    lk_var x;
    lk__pass_out came = {.counts = &t->eval_counts};
    int64_t losses;
    lk_tape_reset(t->eval_tape);
    const lk_pass_parts *parts = eval_parts(t, batch->n);
    LK_TRY(lk__pass_enter(t, t->eval_tape, parts, batch, &x, &came.y));
    lk_pass pass = {
        .tape = t->eval_tape, .first = batch->first, .parts = parts, .terms = lk__pass_terms(t)};
    LK_TRY(lk__trainer_forward(t, &pass, x, &came.out));
    LK_TRY(lk__pass_take(t, &came, &losses));
    for (int64_t i = 0; i < t->n_summands; i++) {
        const lk__summand *s = &t->summand[i];
        t->joined[i] = (lk__loss_sum){.deal = eval_deal(t, batch->n, lk__pass_is_tiled(t, s)),
                                      .own = s->own};
    }
    LK_TRY(lk__control_exchange(t->eval_control, t->joined, t->n_summands));
    (void)lk__losses_sum(t, each);
    if (t->mesh->at[LK_AXIS_SPACE] > 0)
        memset(each, 0, (size_t)t->n_summands * sizeof *each);
    return LK_OK;
}

static lk_status eval_range(lk_trainer *t, lk_loader *loader, lk_range range)
{
    lk_batch batch;
    lk_status st = LK_OK;
    LK_TRY(lk__pass_set_boxes(t, loader, true));
    lk__groups_weights_changed(t->groups);
    for (int64_t i = range.first; st == LK_OK && i < range.first + range.n; i++) {
        st = lk_loader_read_batch(loader, 0, i, 0, lk_loader_batch_size(loader, i), &batch);
        if (lk__groups_space(t->groups) > 1) /* whose ranks wait for each other in the pass */
            st = lk_agree(t->mesh->along[LK_AXIS_SPACE], st);
        if (st == LK_OK)
            st = eval_pass(t, &batch, &t->batch_loss[i * t->n_summands]);
        else
            break;
        if (st != LK_OK && lk__groups_space(t->groups) > 1)
            st = lk__pass_failed(t, st);
    }
    LK_TRY(lk__pass_set_boxes(t, loader, loader == t->spec.train));
    LK_TRY(st);
    return LK_OK;
}

lk_status lk_trainer_evaluate(lk_trainer *t, lk_loader *loader, lk_eval *out)
{
    LK_FP_GUARD();
    LK_CHECK(loader, LK_EINVAL, "loader is NULL");
    lk_comm *comm = lk__trainer_comm(t);
    int64_t batches = lk_loader_batches(loader), losses = batches * t->n_summands;
    LK_TRY(t->chained ? lk__loader_compare_length(comm, "the set to evaluate", loader)
                      : lk__loader_compare(comm, "the set to evaluate", loader));
    if (!t->chained)
        LK_TRY(lk__pass_compare(t, "the set to evaluate", loader));
    lk__counts_clear(t, &t->eval_counts);
    lk_status st = lk__grow(&t->batch_loss, &t->max_batch_loss, losses, sizeof *t->batch_loss);
    if (t->chained) /* whose ranks wait for each other in the passes */
        LK_TRY(lk_agree(comm, st == LK_OK ? lk__chained_check_loader(t, loader) : st));
    if (st == LK_OK) {
        memset(t->batch_loss, 0, (size_t)losses * sizeof *t->batch_loss);
        st = t->chained ? lk__chained_evaluate(t, loader)
                        : eval_range(t, loader,
                                     lk_range_split(batches, t->mesh->at[LK_AXIS_DATA],
                                                    t->mesh->n[LK_AXIS_DATA]));
    }
    LK_TRY(lk_agree(comm, st));
    /* Each batch is one rank's, so the sum over ranks is its loss (of a chain, of all outputs); the order
     * below is that of batches. */
    if (comm)
        LK_TRY(lk_allreduce(comm, NULL, t->batch_loss, losses, LK_F64, LK_REDUCE_SUM, "losses"));
    LK_TRY(lk__counts_join_metrics(t, &t->eval_counts));
    for (int64_t i = 0; i < batches; i++)
        t->eval_counts.samples += lk_loader_batch_size(loader, i);
    for (int64_t i = 0; i < losses; i++)
        t->eval_counts.each[i % t->n_summands] += t->batch_loss[i];
    for (int64_t i = 0; i < t->n_summands; i++)
        t->eval_counts.loss += t->eval_counts.each[i];
    LK_TRY(lk_agree(comm, lk__counts_eval(t, &t->eval_counts, out)));
    return LK_OK;
}
