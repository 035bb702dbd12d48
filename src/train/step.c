/* A step: the blocks of this rank, what joins them with those of the others, and the update.
 *
 *     rank 0                 rank 1
 *     pieces 0 1 2 3         pieces 4 5 6 7       a block is a range of pieces that is a subtree
 *     forward, backward      forward, backward    into the sums of the block
 *     votes and loss of all                       wait for the slowest, and know whether to go on
 *     gradients and statistics of all             exchange; of gradients perhaps a share
 *     update                 update
 *
 * A rank that cannot do its part votes so, so that all stop in the same step.  If a layer
 * needs sums over the whole batch, ranks meet in forward and backward as well: each has one block, or
 * none, and whoever cannot come says so to those who wait.
 */
#include "base/fpenv.h"
#include "parallel/team.h"
#include "train/trainer.h"

#include <lockstep/clock.h>

#include <math.h>
#include <string.h>

static double seconds_since(int64_t *from)
{
    int64_t now = lk_clock_ns();
    double passed = 1e-9 * (double)(now - *from);
    *from = now;
    return passed;
}

lk_status lk__batch_part(const lk_batch *whole, int64_t first, int64_t n, lk_batch *out)
{
    *out = *whole;
    out->first = whole->first + first;
    out->n = n;
    out->index = whole->index + first;
    LK_TRY(lk_tensor_slice(whole->x, 0, first, first + n, 1, &out->x));
    lk_status st = lk_tensor_slice(whole->y, 0, first, first + n, 1, &out->y);
    if (st != LK_OK)
        lk_tensor_free(out->x);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__block_enter(lk_tape *tape, const lk_batch *batch, lk_var *x, lk_var *y)
{
    LK_TRY(lk_constant(tape, batch->x, x));
    LK_TRY(lk_constant(tape, batch->y, y));
    return LK_OK;
}

/* What backward starts from: one over the samples of the batch, times one over the parts of each,
 * rounded after each of the three operations. */
static lk_status seed_fill(const lk_trainer *t, int64_t samples)
{
    double per_sample = 1 / (double)samples, per_part = 1 / (double)t->parts;
    if (lk_tensor_dtype(t->seed) == LK_F32)
        LK_TRY(lk_tensor_fill_f64(t->seed, (double)((float)per_sample * (float)per_part)));
    else
        LK_TRY(lk_tensor_fill_f64(t->seed, per_sample * per_part));
    return LK_OK;
}

lk_status lk__block_pass(lk_trainer *t, const lk_batch *batch, lk_sums *sums, lk_step_time *time)
{
    lk_var x, y, out, loss;
    int64_t clock = lk_clock_ns();
    lk_tape_reset(t->tape);
    LK_TRY(lk__block_enter(t->tape, batch, &x, &y));
    lk_pass pass = {.tape = t->tape,
                    .sums = sums,
                    .training = true,
                    .step = t->step,
                    .first = batch->first,
                    .part = batch->n < batch->size,
                    .batch = lk_team_batch(t->team)};
    LK_TRY(lk_model_forward(t->spec.model, &pass, x, &out));
    LK_TRY(t->cost->apply(t->spec.loss.options, out, y, &loss));
    LK_TRY(lk_sums_add_loss(sums, loss));
    LK_TRY(lk__counts_add(t, &t->seen, out, y));
    time->forward += seconds_since(&clock);
    LK_TRY(seed_fill(t, batch->size));
    LK_TRY(lk_backward(t->tape, &(lk_seed){loss, t->seed}, 1, 0));
    time->backward += seconds_since(&clock);
    return LK_OK;
}

/* ---- the blocks ---- */

/* Block number `k` of this rank, the samples of `block` in the batch. */
static lk_status block_sums(lk_trainer *t, const lk_batch *batch, int k, bool last,
                            lk_step_time *time)
{
    lk_sums *sums = lk_team_sums(t->team, k);
    if (lk_model_reuses(t->spec.model)) {
        LK_TRY(lk__tree_sums(t, batch, sums, time));
        return LK_OK;
    }
    if (last)
        lk_team_watch(t->team, t->tape);
    LK_TRY(lk__block_pass(t, batch, sums, time));
    return LK_OK;
}

/* Samples of the batch that pieces first ... first + n - 1 have: where they begin and how many. */
static int64_t samples_of(const lk_trainer *t, int64_t size, lk_range pieces, int64_t *from)
{
    int64_t piece = lk_loader_piece(t->spec.train);
    *from = pieces.first * piece;
    int64_t end = *from + pieces.n * piece;
    return (end < size ? end : size) - *from;
}

/* All blocks of this rank, from its part of the batch. */
static lk_status blocks_sums(lk_trainer *t, const lk_batch *batch, lk_step_time *time)
{
    lk_range block[LK_MAX_SUBTREES];
    int n = lk_team_blocks(t->team, block);
    if (n <= 1)
        return block_sums(t, batch, 0, true, time);
    for (int k = 0; k < n; k++) {
        int64_t from;
        int64_t samples = samples_of(t, batch->size, block[k], &from);
        lk_batch part;
        LK_TRY(lk__batch_part(batch, from - batch->first, samples, &part));
        lk_status st = block_sums(t, &part, k, k == n - 1, time);
        lk_tensor_free(part.x);
        lk_tensor_free(part.y);
        LK_TRY(st);
    }
    return LK_OK;
}

/* This rank's part of the step; `batch->n` is 0 if it has none.  Where ranks meet during the pass it is
 * made all the same. */
static lk_status part_do(lk_trainer *t, const lk_position *at, lk_range range, lk_batch *batch,
                         lk_step_time *time)
{
    int64_t clock = lk_clock_ns(), from = 0, n = 0;
    if (range.n > 0)
        n = samples_of(t, batch->size, range, &from);
    else if (!lk_team_batch(t->team))
        return LK_OK;
    LK_TRY(lk_loader_get(t->spec.train, at->epoch, at->batch, from, n, batch));
    time->data = seconds_since(&clock);
    LK_TRY(blocks_sums(t, batch, time));
    return LK_OK;
}

/* ---- with the others ---- */

/* Tell how this rank's part went, and hear of the others': *loss is that of the whole batch.  The
 * failure of a rank is that of all. */
static lk_status control_join(lk_trainer *t, lk_status st, double *loss)
{
    lk_range block[LK_MAX_SUBTREES];
    double own[LK_MAX_SUBTREES] = {0};
    int n = lk_team_blocks(t->team, block);
    if (lk__is_end(st))
        return st;
    for (int k = 0; k < n; k++) {
        if (st != LK_OK)
            lk_sums_clear(lk_team_sums(t->team, k));
        own[k] = lk_sums_loss(lk_team_sums(t->team, k));
    }
    lk__deal deal = lk__team_deal(t->team);
    lk__control_vote(t->control, LK__VOTE_FAILED, st != LK_OK);
    LK_TRY(lk_team_join_begun(t->team));
    LK_TRY(lk__control_exchange(t->control, &deal, own, loss));
    if (lk__control_votes(t->control, LK__VOTE_FAILED) > 0)
        LK_TRY(lk_agree(lk__trainer_comm(t), st));
    return st;
}

static lk_status update(lk_trainer *t, int64_t pieces, lk_step_report *report)
{
    lk_optim_report did;
    int64_t clock = lk_clock_ns();
    lk_optim_step step = {.at = {.step = t->step,
                                 .steps_per_epoch = lk_loader_batches(t->spec.train),
                                 .epochs = t->spec.epochs}};
    if (t->shares) {
        lk_range mine = lk_team_share(t->team);
        step.first = mine.first;
        step.n = mine.n;
        step.give = lk_team_take;
        step.giver = t->team;
        LK_TRY(lk_team_join_share(t->team));
    } else {
        LK_TRY(lk_team_join(t->team));
        step.grads = lk_sums_slab(lk_team_total(t->team));
    }
    report->time.exchange = seconds_since(&clock);
    LK_TRY(lk_optimizer_step(t->optimizer, &step, &did));
    report->time.update = seconds_since(&clock);
    if (t->shares)
        LK_TRY(lk_team_meet(t->team));
    report->time.wait += seconds_since(&clock);
    LK_TRY(lk_model_observe(t->spec.model, lk_team_total(t->team), pieces));
    report->time.update += seconds_since(&clock);
    report->rate = did.rate;
    report->norm = did.norm;
    return LK_OK;
}

lk_status lk_trainer_step(lk_trainer *t, lk_step_report *report)
{
    LK_FP_GUARD();
    lk_step_report own;
    LK_TRY(lk__trainer_check_params(t));
    lk_position at = lk_trainer_position(t);
    int64_t piece = lk_loader_piece(t->spec.train);
    lk_batch batch = {.size = lk_loader_batch_size(t->spec.train, at.batch)};
    int64_t pieces = (batch.size + piece - 1) / piece;
    report = report ? report : &own;
    *report = (lk_step_report){.step = t->step, .samples = batch.size};
    int64_t clock = lk_clock_ns();
    lk_range range = lk_team_begin(t->team, pieces, batch.size);
    report->time.forward = seconds_since(&clock);
    lk_status st = part_do(t, &at, range, &batch, &report->time);
    clock = lk_clock_ns();
    if (lk_team_batch(t->team))
        LK_TRY(lk_team_agree(t->team, st));
    double sum = 0;
    LK_TRY(control_join(t, st, &sum));
    report->time.wait = seconds_since(&clock);
    sum /= (double)t->parts;
    report->loss = sum / (double)batch.size;
    if (!isfinite(report->loss))
        LK_TRY(lk__blame(t, range.n > 0 || lk_team_batch(t->team) ? &batch : NULL, report->loss));
    t->seen.samples += batch.size;
    t->seen.loss += sum;
    LK_TRY(update(t, pieces, report));
    t->step++;
    return LK_OK;
}
