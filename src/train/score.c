/* Scores: loss and metrics over samples. */
#include "base/fpenv.h"
#include "base/grow.h"
#include "train/same.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>

static const void *metric_options(const lk_trainer *t, int i)
{
    return t->spec.metrics.item[i].options;
}

lk_status lk__counts_add(const lk_trainer *t, lk__counts *counts, lk_var out, lk_var target)
{
    const lk_tensor *y = NULL, *want = NULL;
    if (t->n_metrics == 0)
        return LK_OK;
    LK_TRY(lk_contiguous(out, &out));
    LK_TRY(lk_value(out, &y));
    LK_TRY(lk_value(target, &want));
    for (int i = 0; i < t->n_metrics; i++)
        LK_TRY(t->metric[i]->add(metric_options(t, i), y, want, counts->number[i]));
    return LK_OK;
}

int64_t lk__counts_numbers(const lk_trainer *t, int i)
{
    return t->metric[i]->numbers(metric_options(t, i), lk_model_out(t->spec.model));
}

void lk__counts_clear(const lk_trainer *t, lk__counts *counts)
{
    counts->samples = 0;
    counts->loss = 0;
    for (int i = 0; i < t->n_metrics; i++)
        memset(counts->number[i], 0, (size_t)lk__counts_numbers(t, i) * sizeof(double));
}

lk_status lk__counts_join(const lk_trainer *t, lk__counts *counts)
{
    lk_comm *comm = lk__trainer_comm(t);
    for (int i = 0; comm && i < t->n_metrics; i++)
        LK_TRY(lk_allreduce(comm, NULL, counts->number[i], lk__counts_numbers(t, i), LK_F64,
                            LK_REDUCE_SUM, t->metric[i]->descriptor.name));
    return LK_OK;
}

lk_status lk__counts_score(const lk_trainer *t, lk__counts *counts, lk_eval *out)
{
    lk_tensor_type io = lk_model_out(t->spec.model);
    *out = (lk_eval){.samples = counts->samples, .loss = counts->loss / (double)counts->samples};
    lk_arena_free(counts->text);
    counts->text = NULL;
    LK_TRY(lk_arena_new(&counts->text));
    for (int i = 0; i < t->n_metrics; i++) {
        const lk_metric *m = t->metric[i];
        out->value[i] = m->value ? m->value(metric_options(t, i), io, counts->number[i])
                                 : (double)NAN;
        if (m->json)
            LK_TRY(
                m->json(metric_options(t, i), io, counts->number[i], counts->text, &out->json[i]));
    }
    return LK_OK;
}

lk_status lk_trainer_train_metrics(lk_trainer *t, lk_eval *out)
{
    LK_FP_GUARD();
    LK_TRY(lk__counts_join(t, &t->seen));
    LK_TRY(lk__counts_score(t, &t->seen, out));
    lk__counts_clear(t, &t->seen);
    return LK_OK;
}

void lk__seen_keep_on_first(lk_trainer *t)
{
    for (int i = 0; lk__trainer_rank(t) > 0 && i < t->n_metrics; i++)
        memset(t->seen.number[i], 0, (size_t)lk__counts_numbers(t, i) * sizeof(double));
}

lk_status lk__score_so_far(lk_trainer *t, lk_eval *out)
{
    LK_TRY(lk__counts_join(t, &t->seen));
    lk_status st = lk__counts_score(t, &t->seen, out);
    lk__seen_keep_on_first(t);
    LK_TRY(st);
    return LK_OK;
}

/* ---- evaluation: each rank has a range of batches ---- */

/* One batch of an evaluation. */
static lk_status view(lk_trainer *t, const lk_batch *batch, double *sum)
{
    lk_var x, y, out, loss;
    lk_tape_reset(t->viewing);
    LK_TRY(lk__block_enter(t->viewing, batch, &x, &y));
    LK_TRY(lk_model_forward(t->spec.model, &(lk_pass){.tape = t->viewing, .first = batch->first}, x,
                            &out));
    LK_TRY(t->cost->apply(t->spec.loss.options, out, y, &loss));
    LK_TRY(lk_item(loss, sum));
    LK_TRY(lk__counts_add(t, &t->viewed, out, y));
    return LK_OK;
}

static lk_status view_range(lk_trainer *t, lk_loader *loader, lk_range range)
{
    lk_batch batch;
    for (int64_t i = range.first; i < range.first + range.n; i++) {
        LK_TRY(lk_loader_read_batch(loader, 0, i, 0, lk_loader_batch_size(loader, i), &batch));
        LK_TRY(view(t, &batch, &t->batch_loss[i]));
    }
    return LK_OK;
}

lk_status lk_trainer_evaluate(lk_trainer *t, lk_loader *loader, lk_eval *out)
{
    LK_FP_GUARD();
    LK_CHECK(loader, LK_EINVAL, "loader is NULL");
    lk_comm *comm = lk__trainer_comm(t);
    int64_t batches = lk_loader_batches(loader);
    LK_TRY(lk__loader_compare(comm, "the set to evaluate", loader));
    lk__counts_clear(t, &t->viewed);
    lk_status st = lk__grow(&t->batch_loss, &t->max_batch_loss, batches, sizeof *t->batch_loss);
    if (st == LK_OK) {
        memset(t->batch_loss, 0, (size_t)batches * sizeof *t->batch_loss);
        st = view_range(t, loader,
                        lk_range_split(batches, lk__trainer_rank(t), lk__trainer_size(t)));
    }
    LK_TRY(lk_agree(comm, st));
    if (comm)
        LK_TRY(lk_allreduce(comm, NULL, t->batch_loss, batches, LK_F64, LK_REDUCE_SUM, "losses"));
    LK_TRY(lk__counts_join(t, &t->viewed));
    for (int64_t i = 0; i < batches; i++) {
        t->viewed.loss += t->batch_loss[i] / (double)t->parts;
        t->viewed.samples += lk_loader_batch_size(loader, i);
    }
    LK_TRY(lk__counts_score(t, &t->viewed, out));
    return LK_OK;
}
