/* lk_trainer_step(): the micro-batches of this rank, the reduction over ranks, and the update.
 *
 *     rank 0                 rank 1
 *     shards 0 1 2 3         shards 4 5 6 7       a micro-batch is a range of shards that is a subtree
 *     forward, backward      forward, backward    into its accumulator
 *     votes and loss of all                       wait for the slowest, and know whether to go on
 *     gradients and statistics of all             reduced everywhere; of gradients perhaps a share
 *     update                 update
 *
 * With double buffering the gradients of a batch travel while the next one is computed, and an update follows
 * those of the batch before (parallel/pending_sums.c).
 *
 * A rank that cannot read its samples votes so, and all stop in the same step.  If a layer reduces over
 * the whole batch, ranks wait for each other in forward and backward as well: each has one micro-batch,
 * or none, and one that could not read takes part with zeros.  A failure in a pass ends the job.
 */
#include "base/failure.h"
#include "base/fpenv.h"
#include "comm/user.h"
#include "nn/model.h"
#include "train/batches.h"
#include "train/pass.h"

#include <lockstep/extra/clock.h>
#include <lockstep/extra/plan.h>

#include <math.h>
#include <string.h>

double lk__seconds_since(int64_t *from)
{
    int64_t now = lk_clock_ns();
    double passed = 1e-9 * (double)(now - *from);
    *from = now;
    return passed;
}

lk_status lk__microbatch_pass(lk_trainer *t, const lk_batch *batch, lk_accumulator *accumulator,
                              lk_step_seconds *time)
{
    lk_var x;
    lk__pass_out result = {
        .counts = &t->step_counts, .accumulator = accumulator, .seeds = t->room.seeds};
    int64_t clock = lk_clock_ns(), losses;
    lk_tape_reset(t->tape);
    lk_pass pass = lk__pass_of(t, batch, accumulator, &t->room);
    LK_TRY(lk__pass_enter(t, t->tape, pass.parts, batch, &x, &result.y));
    if (t->spec.parallel_model)
        LK_TRY(lk_parallel_model_forward(t->spec.parallel_model, &pass, x, &result.out));
    else
        LK_TRY(lk_model_forward(t->spec.model, &pass, x, &result.out));
    LK_TRY(lk__pass_take(t, &result, &losses));
    time->forward += lk__seconds_since(&clock);
    LK_TRY(lk__seed_fill(t, batch->size));
    LK_TRY(lk_backward(t->tape, t->room.seeds, (int)losses, 0));
    time->backward += lk__seconds_since(&clock);
    return LK_OK;
}

lk_status lk__pass_failed(lk_trainer *t, lk_status st)
{
    lk_comm *comm = lk__trainer_comm(t);
    lk__failure own;
    char report[LK__FAILURE_MESSAGE];
    lk_status end = comm ? lk__comm_ended_elsewhere(comm) : LK_OK;
    if (end != LK_OK)
        st = end;
    else if (st == LK_ENOMEM) /* here; elsewhere it has been said */
        lk__report_fitting_size(t);
    if (!comm)
        return st;
    lk__failure_get(&own);
    snprintf(report, sizeof report, "rank %d: %.480s", lk_comm_rank(comm), own.message);
    lk__comm_end_job(comm, st, report);
    if (t->groups)
        (void)!lk__groups_finish_overlap(t->groups); /* which releases what was under way */
    lk__failure_set(&own);
    return st;
}

/* ---- with the others ---- */

/* Exchange how the parts of all ranks went, and what their micro-batches have of each loss. */
static lk_status control_exchange(lk_trainer *t, lk_status st)
{
    lk_range range[LK_MAX_SUBTREES];
    int n = lk__groups_microbatches(t->groups, range);
    for (int k = 0; st != LK_OK && k < n; k++)
        lk_accumulator_clear(lk__groups_accumulator(t->groups, k));
    for (int64_t i = 0; i < t->n_summands; i++) {
        const lk__summand *s = &t->summand[i];
        int64_t leaves = lk__pass_leaves(t, s);
        for (int64_t k = 0; k < n * leaves; k++)
            s->own[k] = lk__accumulator_term(lk__groups_accumulator(t->groups, (int)(k / leaves)),
                                             s->term, k % leaves);
    }
    LK_TRY(lk__groups_finish_overlap(t->groups));
    return LK_TRACE(lk__losses_exchange(t, st));
}

/* What the update follows: the sums of this batch, joined, of `*shards` shards; or with double buffering those
 * of the batch before, while this one's begin to travel.  NULL: there is nothing to follow yet. */
static lk_status sums_take(lk_trainer *t, lk_accumulator **out, int64_t *shards)
{
    *out = lk__groups_result(t->groups);
    if (t->spec.parallel.double_buffering) {
        *out = lk__groups_pending(t->groups, shards);
        LK_TRY(lk__groups_start_pending(t->groups));
    } else if (t->shares) {
        LK_TRY(lk__groups_reduce_owned(t->groups));
    } else {
        LK_TRY(lk__groups_allreduce(t->groups));
    }
    if (t->pipeline)
        LK_TRY(lk__pipeline_join_shared(t, *out));
    if (*out)
        LK_TRY(lk_accumulator_join_uses(*out));
    return LK_OK;
}

static lk_status update(lk_trainer *t, int64_t shards, lk_step_report *report)
{
    lk_optimizer_report did;
    lk_accumulator *sums;
    int64_t clock = lk_clock_ns(), late = t->spec.parallel.double_buffering;
    lk_optimizer_input step = {.at = {.step = t->step - t->spec.first - late,
                                      .steps_per_epoch = lk_loader_batches(t->spec.train),
                                      .epochs = t->spec.epochs},
                               .positions = t->positions.axes ? &t->positions : NULL,
                               .blocks = t->blocks.cut ? &t->blocks : NULL,
                               .frozen = t->has_frozen ? t->frozen : NULL};
    report->norm = -1;
    LK_TRY(sums_take(t, &sums, &shards));
    report->time.exchange = lk__seconds_since(&clock);
    if (!sums)
        return LK_OK;
    if (t->shares) {
        lk_range mine = lk__groups_owned_range(t->groups);
        step.first = mine.first;
        step.n = mine.n;
        step.read_gradient = lk__groups_read_gradient;
        step.context = t->groups;
    } else {
        step.grads = lk_accumulator_slab(sums);
        step.join_sums = t->pipeline ? lk__pipeline_join_sums : NULL;
        step.context = t;
    }
    LK_TRY(lk_optimizer_step(t->optimizer, &step, &did));
    LK_TRY(lk_model_constrain(t->spec.model));
    report->time.update = lk__seconds_since(&clock);
    if (t->shares)
        LK_TRY(lk__groups_barrier(t->groups));
    report->time.wait += lk__seconds_since(&clock);
    LK_TRY(lk_model_update_running_stats(t->spec.model, sums, shards));
    report->time.update += lk__seconds_since(&clock);
    report->rate = did.rate;
    report->norm = did.norm;
    return LK_OK;
}

lk_status lk_trainer_step(lk_trainer *t, lk_step_report *report)
{
    LK_FP_GUARD();
    lk_step_report own;
    LK_TRY(lk__trainer_check_params(t));
    report = report ? report : &own;
    lk__counts_clear(t, &t->step_counts);
    if (t->chained)
        return lk__chained_step(t, report);
    lk_position at = lk_trainer_position(t);
    int64_t shard_size = lk_loader_shard_size(t->spec.train);
    lk_batch batch = {.size = lk_loader_batch_size(t->spec.train, at.batch)};
    int64_t shards = (batch.size + shard_size - 1) / shard_size;
    *report = (lk_step_report){.step = t->step, .samples = batch.size};
    int64_t clock = lk_clock_ns();
    lk__batch_work work = {.loader = t->spec.train,
                           .epoch = at.epoch,
                           .number = at.batch,
                           .size = batch.size,
                           .shards = lk__groups_begin(t->groups, shards, batch.size),
                           .communicates = lk__groups_batch(t->groups),
                           .trains = true};
    report->time.forward = lk__seconds_since(&clock);
    lk_status unread, st = t->pipeline ? lk__pipeline_run(t, &work, &batch, &report->time, &unread)
                                       : lk__batch_run(t, &work, &batch, &report->time, &unread);
    if (st != LK_OK)
        LK_TRY(lk__pass_failed(t, st));
    clock = lk_clock_ns();
    LK_TRY(control_exchange(t, unread));
    report->time.wait += lk__seconds_since(&clock);
    double sum = lk__losses_sum(t, t->step_counts.each);
    report->loss = sum / (double)batch.size;
    report->losses = lk__counts_means(t, &t->step_counts, batch.size);
    if (!isfinite(report->loss))
        LK_TRY(lk__nonfinite_report(t, work.shards.n > 0 || work.communicates ? &batch : NULL,
                                    report->loss));
    lk__step_counts_take(t, batch.size, sum, t->step_counts.each);
    LK_TRY(update(t, shards, report));
    t->step++;
    return LK_OK;
}
