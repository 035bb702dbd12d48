/* A step: the blocks of the batch, the tree that joins them, and the update.
 *
 *     pieces     0   1   2   3   4         a block is a run of pieces that is a subtree: all of
 *                 \ /     \ /    |         them at once, or one by one where the model uses a
 *                  +   +   +     |         parameter more than once
 *                   \     /      |
 *                    \   /       |         level[k] holds the sum of 2^k pieces that waits for its
 *                      +    +    +         right neighbour
 */
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

/* Samples first <= i < first + n of a batch, as a batch. */
static lk_status batch_part(const lk_batch *whole, int64_t first, int64_t n, lk_batch *out)
{
    *out = *whole;
    out->first = whole->first + first;
    out->n = n;
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

/* One pass: the sums of a block, which begin with zeros. */
static lk_status block_pass(lk_trainer *t, const lk_batch *batch, lk_sums *sums, lk_step_time *time)
{
    lk_var x, y, out, loss;
    int64_t clock = lk_clock_ns();
    lk_tape_reset(t->tape);
    lk_sums_clear(sums);
    LK_TRY(lk__block_enter(t->tape, batch, &x, &y));
    lk_pass pass = {
        .tape = t->tape, .sums = sums, .training = true, .step = t->step, .first = batch->first};
    LK_TRY(lk_model_forward(t->spec.model, &pass, x, &out));
    LK_TRY(t->cost->apply(t->spec.loss.options, out, y, &loss));
    LK_TRY(lk_sums_add_loss(sums, loss));
    LK_TRY(lk__counts_add(t, &t->seen, out, y));
    time->forward += seconds_since(&clock);
    LK_TRY(lk_tensor_fill_f64(t->seed, 1 / (double)batch->size));
    LK_TRY(lk_backward(t->tape, &(lk_seed){loss, t->seed}, 1, 0));
    time->backward += seconds_since(&clock);
    return LK_OK;
}

/* ---- the tree ---- */

/* Put t->spare, the sum of the next 2^k pieces, into the tree that has `pieces` so far. */
static lk_status tree_push(lk_trainer *t, int64_t pieces)
{
    int level = 0;
    for (; pieces % 2; pieces /= 2, level++) {
        lk_sums *later = t->spare;
        LK_TRY(lk_sums_join(t->level[level], later));
        t->spare = t->level[level];
        t->level[level] = later;
    }
    lk_sums *free = t->level[level];
    t->level[level] = t->spare;
    t->spare = free;
    if (!t->spare)
        LK_TRY(lk_sums_new(t->spec.model, &t->spare));
    return LK_OK;
}

/* Join what waits: t->spare becomes the sum of all `pieces`. */
static lk_status tree_finish(lk_trainer *t, int64_t pieces)
{
    lk_sums *sum = NULL;
    for (int level = 0; pieces >> level; level++) {
        if (!((pieces >> level) % 2))
            continue;
        if (sum)
            LK_TRY(lk_sums_join(t->level[level], sum));
        sum = t->level[level];
    }
    for (int level = 0; level < LK__TREE_LEVELS; level++)
        if (t->level[level] == sum) {
            t->level[level] = t->spare;
            t->spare = sum;
            break;
        }
    return LK_OK;
}

/* The sums of a batch, in t->spare. */
static lk_status batch_sums(lk_trainer *t, const lk_batch *batch, lk_step_time *time)
{
    int64_t piece = lk_loader_piece(t->spec.train), pieces = 0;
    if (!lk_model_reuses(t->spec.model)) {
        LK_TRY(block_pass(t, batch, t->spare, time));
        return LK_OK;
    }
    for (int64_t first = 0; first < batch->n; first += piece, pieces++) {
        lk_batch part;
        LK_TRY(
            batch_part(batch, first, batch->n - first < piece ? batch->n - first : piece, &part));
        lk_status st = block_pass(t, &part, t->spare, time);
        lk_tensor_free(part.x);
        lk_tensor_free(part.y);
        LK_TRY(st);
        LK_TRY(tree_push(t, pieces));
    }
    LK_TRY(tree_finish(t, pieces));
    return LK_OK;
}

/* ---- the step ---- */

static lk_status update(lk_trainer *t, const lk_batch *batch, lk_step_report *report)
{
    int64_t piece = lk_loader_piece(t->spec.train);
    lk_optim_report did;
    lk_optim_step step = {.grads = lk_sums_slab(t->spare),
                          .at = {.step = t->step,
                                 .steps_per_epoch = lk_loader_batches(t->spec.train),
                                 .epochs = t->spec.epochs}};
    LK_TRY(lk_optimizer_step(t->optimizer, &step, &did));
    LK_TRY(lk_model_observe(t->spec.model, t->spare, (batch->size + piece - 1) / piece));
    report->rate = did.rate;
    report->norm = did.norm;
    return LK_OK;
}

lk_status lk_trainer_step(lk_trainer *t, lk_step_report *report)
{
    lk_step_report own;
    lk_batch batch;
    int64_t clock = lk_clock_ns();
    lk_position at = lk_trainer_position(t);
    report = report ? report : &own;
    *report = (lk_step_report){.step = t->step};
    int64_t size = lk_loader_batch_size(t->spec.train, at.batch);
    LK_TRY(lk_loader_get(t->spec.train, at.epoch, at.batch, 0, size, &batch));
    report->time.data = seconds_since(&clock);
    LK_TRY(batch_sums(t, &batch, &report->time));
    report->samples = batch.size;
    report->loss = lk_sums_loss(t->spare) / (double)batch.size;
    if (!isfinite(report->loss))
        LK_TRY(lk__blame(t, &batch, report->loss));
    t->seen.samples += batch.size;
    t->seen.loss += lk_sums_loss(t->spare);
    clock = lk_clock_ns();
    LK_TRY(update(t, &batch, report));
    report->time.update = seconds_since(&clock);
    t->step++;
    return LK_OK;
}
