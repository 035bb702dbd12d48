/* Training a chain list, step by step.
 *
 *     rank 0 (data)            rank 1 (none)
 *     x -> component - - - ->  component        one pass over the whole batch, by all ranks together
 *     loss <- component <- - - component
 *     backward                 backward         each rank's models get their gradients
 *     votes and losses of all ranks             one small allreduce, as in any step
 *     update                   update           each rank its own models
 *
 * Gradients are of the sum of all ranks' losses, and nothing is joined.  Where a model on any rank uses a
 * parameter more than once, each shard is a pass of its own.  A rank that cannot read its samples goes
 * through the pass with zeros and votes so; one that fails in a pass ends the job.
 */
#include "base/failure.h"
#include "train/chained.h"
#include "train/trainer.h"

#include <lockstep/extra/clock.h>

#include <math.h>
#include <string.h>

static lk_chain *chain_of(const lk_trainer *t)
{
    return t->spec.chain;
}

static int field_of(const lk_trainer *t, const char *name)
{
    return lk_dataset_find(lk_loader_dataset(t->spec.train), name);
}

/* ---- a pass ---- */

/* Zeros in place of samples that could not be read. */
static lk_status zeros_make(lk_trainer *t, const lk_loader *loader, lk_batch *batch)
{
    batch->x = batch->y = NULL;
    if (t->chained->has_x)
        LK_TRY(lk__zeros_of(loader, field_of(t, "x"), batch->n, &batch->x));
    if (t->chained->has_y)
        LK_TRY(lk__zeros_of(loader, field_of(t, "y"), batch->n, &batch->y));
    return LK_OK;
}

/* Samples of a batch that are taken for one; *unread: why they could not be read, and are zeros. */
static lk_status batch_read(lk_trainer *t, lk_loader *loader, const lk_position *at,
                            lk_range samples, lk_batch *batch, lk_status *unread)
{
    lk__failure why;
    *unread = lk_loader_read_batch(loader, at->epoch, at->batch, samples.first, samples.n, batch);
    batch->first = 0;
    batch->size = samples.n;
    if (*unread == LK_OK)
        return LK_OK;
    lk__failure_get(&why);
    *batch = (lk_batch){.epoch = at->epoch, .number = at->batch, .size = samples.n, .n = samples.n};
    lk_status st = zeros_make(t, loader, batch);
    lk__failure_set(&why);
    return LK_TRACE(st);
}

/* Forward of this rank's components; where there is an output, *loss is the sum over its samples. */
static lk_status forward(lk_trainer *t, const lk_pass *pass, const lk_batch *batch,
                         lk__counts *counts, lk_var *loss)
{
    lk_var x = LK_NO_VAR, y, value;
    lk_list out = {.at = &value, .room = 1};
    const lk__chained *c = t->chained;
    if (c->has_x)
        LK_TRY(lk_constant(pass->tape, batch->x, &x));
    LK_TRY(lk_chain_forward(chain_of(t), pass, &x, c->has_x, &out));
    *loss = LK_NO_VAR;
    if (!c->has_output)
        return LK_OK;
    LK_CHECK(out.n == 1, LK_EINVAL,
             "the output of this rank's chain has %d values: a trainer needs one", out.n);
    LK_TRY(lk_constant(pass->tape, batch->y, &y));
    LK_TRY(t->loss->apply(t->options.loss.options, value, y, loss));
    return LK_TRACE(lk__counts_add(t, counts, value, LK_NO_VAR, y));
}

/* Forward and backward of a batch, or a shard of one. */
static lk_status train_pass(lk_trainer *t, const lk_batch *batch, double *sum,
                            lk_step_seconds *time)
{
    lk_var loss;
    int64_t clock = lk_clock_ns();
    lk_pass pass = {.tape = t->tape,
                    .training = true,
                    .step = t->step,
                    .first = batch->first,
                    .part = batch->n < batch->size};
    *sum = 0;
    lk_tape_reset(t->tape);
    lk_chain_clear(chain_of(t));
    LK_TRY(forward(t, &pass, batch, &t->step_counts, &loss));
    if (t->chained->has_output)
        LK_TRY(lk_item(loss, sum));
    time->forward += lk__seconds_since(&clock);
    LK_TRY(lk__seed_fill(t, batch->size));
    LK_TRY(lk_backward(t->tape, &(lk_seed){loss, t->seed}, t->chained->has_output, 0));
    time->backward += lk__seconds_since(&clock);
    return LK_OK;
}

/* ---- shard by shard ---- */

/* What the pass over a shard has added up, joined with that of those before. */
static lk_status shard_push(const lk_trainer *t)
{
    const lk_chain *chain = chain_of(t);
    for (int64_t k = 0; k < chain->n; k++) {
        lk_accumulator *own;
        if (!chain->component[k].is.model)
            continue;
        LK_TRY(lk__shard_sums_next(&t->chained->shards[k], &own));
        memcpy(lk_slab_data(lk_accumulator_slab(own)),
               lk_slab_data(lk_accumulator_slab(chain->component[k].accumulator)),
               (size_t)lk_accumulator_bytes(chain->component[k].is.model));
        LK_TRY(lk__shard_sums_push(&t->chained->shards[k]));
    }
    return LK_OK;
}

/* The tree over the losses of shards, in the output's dtype. */
static double tree_sum(const double *loss, int64_t n, lk_dtype dtype)
{
    if (n == 1)
        return loss[0];
    int64_t half = lk_tree_half(n);
    double lower = tree_sum(loss, half, dtype), upper = tree_sum(loss + half, n - half, dtype);
    return dtype == LK_F32 ? (double)((float)lower + (float)upper) : lower + upper;
}

static lk_status shard_passes(lk_trainer *t, const lk_batch *batch, double *sum,
                              lk_step_seconds *time)
{
    const lk_chain *chain = chain_of(t);
    lk__chained *c = t->chained;
    int64_t size = lk_loader_shard_size(t->spec.train), n = 0;
    for (int64_t k = 0; k < chain->n; k++)
        lk__shard_sums_begin(&c->shards[k], NULL);
    for (int64_t first = 0; first < batch->n; first += size, n++) {
        lk_batch part;
        int64_t samples = batch->n - first < size ? batch->n - first : size;
        lk_status st = lk__batch_part(batch, first, samples, &part);
        if (st == LK_OK)
            st = train_pass(t, &part, &c->shard_loss[n], time);
        lk_tensor_free(part.x);
        lk_tensor_free(part.y);
        LK_TRY(st);
        LK_TRY(shard_push(t));
    }
    *sum = tree_sum(c->shard_loss, n, t->out.dtype);
    for (int64_t k = 0; k < chain->n; k++)
        if (chain->component[k].is.model)
            LK_TRY(lk__shard_sums_finish(&c->shards[k], chain->component[k].accumulator));
    return LK_OK;
}

/* ---- a step ---- */

/* Exchange how it went on all ranks: *loss is the sum of theirs.  A rank's failure to read is that of
 * all. */
static lk_status control_exchange(lk_trainer *t, lk_status unread, double own, double *loss)
{
    own /= (double)t->parts;
    t->joined[0] = (lk__loss_sum){
        .deal = {.shards = lk__trainer_size(t), .first = t->chained->deal}, .own = &own};
    lk__control_vote(t->control, LK__VOTE_FAILED, unread != LK_OK);
    LK_TRY(lk__control_exchange(t->control, t->joined, 1));
    *loss = t->joined[0].total;
    if (lk__control_votes(t->control, LK__VOTE_FAILED) > 0)
        LK_TRY(lk_agree(lk__trainer_comm(t), unread));
    return unread;
}

static lk_status update(lk_trainer *t, int64_t shards, lk_step_report *report)
{
    lk_optimizer_report did;
    const lk_chain *chain = chain_of(t);
    lk__chain_state *state = t->chained->state;
    int64_t clock = lk_clock_ns();
    LK_TRY(lk__chain_state_take_gradients(state));
    lk_optimizer_input step = {.grads = state->grads,
                               .at = {.step = t->step - t->spec.first,
                                      .steps_per_epoch = lk_loader_batches(t->spec.train),
                                      .epochs = t->spec.epochs},
                               .join_sums = lk__trainer_comm(t) ? lk__chain_state_join_sums : NULL,
                               .context = state};
    LK_TRY(lk_optimizer_step(t->optimizer, &step, &did));
    for (int64_t k = 0; k < chain->n; k++)
        if (chain->component[k].is.model) {
            LK_TRY(lk_model_constrain(chain->component[k].is.model));
            LK_TRY(lk_model_update_running_stats(chain->component[k].is.model,
                                                 chain->component[k].accumulator, shards));
        }
    report->time.update += lk__seconds_since(&clock);
    report->rate = did.rate;
    report->norm = did.norm;
    return LK_OK;
}

static void zeros_free(lk_batch *batch, lk_status unread)
{
    if (unread == LK_OK)
        return; /* the loader's */
    lk_tensor_free(batch->x);
    lk_tensor_free(batch->y);
}

static lk_status step_run(lk_trainer *t, lk_batch *batch, lk_status unread, lk_step_report *report)
{
    double own = 0, sum = 0;
    int64_t shard_size = lk_loader_shard_size(t->spec.train), clock;
    lk_status st = t->chained->shards ? shard_passes(t, batch, &own, &report->time)
                                      : train_pass(t, batch, &own, &report->time);
    if (st != LK_OK)
        LK_TRY(lk__pass_failed(t, st));
    clock = lk_clock_ns();
    LK_TRY(control_exchange(t, unread, own, &sum));
    report->time.wait = lk__seconds_since(&clock);
    report->loss = sum / (double)batch->size;
    if (!isfinite(report->loss))
        LK_TRY(lk__nonfinite_report(t, batch, report->loss));
    t->step_counts.each[0] = sum;
    report->losses = lk__counts_means(t, &t->step_counts, batch->size);
    lk__step_counts_take(t, batch->size, sum, &sum);
    LK_TRY(update(t, (batch->size + shard_size - 1) / shard_size, report));
    t->step++;
    return LK_OK;
}

lk_status lk__chained_step(lk_trainer *t, lk_step_report *report)
{
    lk_batch batch;
    lk_status unread;
    lk_position at = lk_trainer_position(t);
    int64_t clock = lk_clock_ns();
    lk_range all = {0, lk_loader_batch_size(t->spec.train, at.batch)};
    lk_status st = batch_read(t, t->spec.train, &at, all, &batch, &unread);
    if (st != LK_OK) {
        zeros_free(&batch, unread);
        LK_TRY(lk__pass_failed(t, st));
    }
    *report = (lk_step_report){.step = t->step, .samples = batch.size};
    report->time.data = lk__seconds_since(&clock);
    st = step_run(t, &batch, unread, report);
    if (unread != LK_OK)
        lk_tape_reset(t->tape); /* which has the zeros */
    zeros_free(&batch, unread);
    return LK_TRACE(st);
}

/* ---- evaluation ---- */

lk_status lk__chained_check_loader(const lk_trainer *t, const lk_loader *loader)
{
    static const char *const name[] = {"x", "y"};
    for (int i = 0; i < 2; i++) {
        int own = field_of(t, name[i]), other = lk_dataset_find(lk_loader_dataset(loader), name[i]);
        lk_field a = lk_loader_field(t->spec.train, own), b = lk_loader_field(loader, other);
        LK_CHECK(own < 0 ||
                     (other >= 0 && a.dtype == b.dtype && lk_shape_is_equal(a.shape, b.shape)),
                 LK_ESHAPE,
                 "field \"%s\" is %s%s in what this rank trains with, and %s%s in the set "
                 "to evaluate",
                 name[i], lk_dtype_name(a.dtype), lk_shape_text(a.shape).s,
                 other < 0 ? "not there" : lk_dtype_name(b.dtype),
                 other < 0 ? "" : lk_shape_text(b.shape).s);
    }
    return LK_OK;
}

/* Forward alone; *sum is the loss of this rank's output. */
static lk_status eval_pass(lk_trainer *t, const lk_batch *batch, double *sum)
{
    lk_var loss;
    lk_pass pass = {.tape = t->tape, .first = batch->first};
    *sum = 0;
    lk_tape_reset(t->tape);
    bool recorded = lk_tape_set_recording(t->tape, false);
    lk_status st = forward(t, &pass, batch, &t->eval_counts, &loss);
    (void)lk_tape_set_recording(t->tape, recorded);
    LK_TRY(st);
    if (t->chained->has_output)
        LK_TRY(lk_item(loss, sum));
    return LK_OK;
}

lk_status lk__chained_eval(lk_trainer *t, lk_loader *loader, int64_t number, lk_range samples)
{
    lk_batch batch;
    lk_status unread;
    double own = 0, sum = 0;
    lk_status st = batch_read(t, loader, &(lk_position){.batch = number}, samples, &batch, &unread);
    if (st == LK_OK)
        st = eval_pass(t, &batch, &own);
    lk_tape_reset(t->tape); /* which has zeros, where they stand for samples */
    zeros_free(&batch, unread);
    if (st != LK_OK)
        LK_TRY(lk__pass_failed(t, st));
    LK_TRY(control_exchange(t, unread, own, &sum));
    t->eval_counts.each[0] += sum;
    return LK_OK;
}

/* ---- what is not finite ---- */

lk_status lk__chained_find_nonfinite(lk_trainer *t, const lk_batch *batch, char *name, size_t size)
{
    lk_var x = LK_NO_VAR;
    lk_pass pass = {.tape = t->tape, .training = true, .step = t->step, .first = batch->first};
    if (t->chained->has_x)
        LK_TRY(lk_constant(t->tape, batch->x, &x));
    return LK_TRACE(
        lk__chain_find_nonfinite(chain_of(t), &pass, &x, t->chained->has_x, name, size));
}
