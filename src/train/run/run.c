/* lk_job_run(): steps until the last epoch, evaluations in between, and what is kept of them.
 *
 * All ranks do the same at the same step.  What may differ between them (a signal, a disk that is
 * full, the clock) is voted on in each step (parallel/control.h), or agreed on, before any acts on it.
 */
#include "train/run/run.h"

#include "base/fpenv.h"
#include "multinode/patience.h"

#include <lockstep/extra/clock.h>

#include <math.h>
#include <string.h>

static double seconds_since(int64_t ns)
{
    return 1e-9 * (double)(lk_clock_ns() - ns);
}

/* ---- what is better ---- */

lk_status lk__run_monitor(lk__run *r)
{
    const char *wanted = r->options->early_stop.metric, *name;
    r->metric = -1;
    r->lower = true;
    r->progress.best = (double)NAN;
    r->progress.best_step = -1;
    if (!wanted || strcmp(wanted, "loss") == 0 || !r->trainer->counts_loss)
        return LK_OK; /* of what layers lose alone, there are no metrics */
    for (int i = 0; (name = lk_trainer_metric(r->trainer, i, &r->lower)); i++)
        if (strcmp(name, wanted) == 0) {
            LK_CHECK(lk_trainer_metric_is_number(r->trainer, i), LK_EINVAL,
                     "train.early_stop.metric is \"%s\", a table: it has no number to improve",
                     wanted);
            r->metric = i;
            return LK_OK;
        }
    return LK_RAISE(LK_EINVAL, "train.early_stop.metric is \"%s\", which is not among the metrics",
                    wanted);
}

/* Whether the evaluation is better than all before; remembers it. */
static bool is_progress(lk__run *r, const lk_epoch_report *report)
{
    lk__progress *p = &r->progress;
    double value = r->metric < 0 ? report->test.loss : report->test.value[r->metric];
    double change = r->options->early_stop.change;
    if (!lk__patience_update(value, r->lower, change, &p->best, &p->without))
        return false;
    p->best_epoch = report->epoch;
    p->best_step = report->step;
    return true;
}

/* ---- reports ---- */

/* The times of all ranks. */
static lk_status times_gather(lk__run *r, lk_epoch_report *report)
{
    report->ranks = lk__trainer_size(r->trainer);
    report->slowest = -1;
    r->rank_time[0] = r->time;
    if (r->comm)
        LK_TRY(lk_allgather(r->comm, &r->time, r->rank_time, sizeof r->time, LK_U8, "times"));
    if (!report->complete)
        return LK_OK;
    report->rank_time = r->rank_time;
    for (int k = 0; r->comm && k < report->ranks; k++)
        if (report->slowest < 0 || lk_step_compute_seconds(&r->rank_time[k]) >
                                       lk_step_compute_seconds(&r->rank_time[report->slowest]))
            report->slowest = k;
    return LK_OK;
}

static double samples_per_s(const lk__run *r)
{
    double seconds = seconds_since(r->epoch_began);
    return seconds > 0 ? (double)r->epoch_samples / seconds : 0;
}

/* What every report ends with. */
static lk_status report_finish(lk__run *r, lk_epoch_report *report)
{
    report->seconds = seconds_since(r->began);
    LK_TRY(lk_trainer_hash(r->trainer, &report->state));
    return LK_TRACE(times_gather(r, report));
}

static void epoch_report(lk__run *r, const lk_epoch_report *report)
{
    if (r->callbacks && r->callbacks->epoch)
        r->callbacks->epoch(r->callbacks->arg, r->job, report);
}

/* The end of an epoch, an evaluation, or both. */
static lk_status report_make(lk__run *r, bool complete, bool evaluate)
{
    lk_position at = lk_trainer_position(r->trainer);
    const char *name;
    lk_loader *loader = lk_job_evaluation(r->job, &name);
    lk_epoch_report report = {
        .epoch = at.epoch, .step = at.step, .complete = complete, .rate = r->progress.rate};
    if (complete)
        report.samples_per_s = samples_per_s(r);
    LK_TRY(lk_agree(r->comm, lk__state_check(r->trainer)));
    if (complete)
        LK_TRY(lk_trainer_train_metrics(r->trainer, &report.train));
    if (evaluate && loader) {
        int64_t before = lk_clock_ns();
        LK_TRY(lk_trainer_evaluate(r->trainer, loader, &report.test));
        r->epoch_began += lk_clock_ns() - before; /* the rate is that of steps */
        report.evaluated = true;
        report.best = is_progress(r, &report);
    }
    LK_TRY(report_finish(r, &report));
    r->result.last = report;
    LK_TRY(lk__run_write_report(r, &report));
    epoch_report(r, &report);
    if (complete) {
        r->epoch_began = lk_clock_ns();
        r->epoch_samples = 0;
        r->time = (lk_step_seconds){0};
    }
    return LK_OK;
}

/* The part of an epoch in which `train.steps` end.  It is reported but not written: the files are those of
 * a run that goes on from here, which reports the whole epoch. */
static lk_status part_report(lk__run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    lk_epoch_report report = {.epoch = at.epoch,
                              .step = at.step,
                              .rate = r->progress.rate,
                              .samples_per_s = samples_per_s(r)};
    LK_TRY(lk_agree(r->comm, lk__state_check(r->trainer)));
    LK_TRY(lk__train_metrics_so_far(r->trainer, &report.train));
    LK_TRY(report_finish(r, &report));
    if (r->result.last.step == 0)
        r->result.last = report;
    epoch_report(r, &report);
    return LK_OK;
}

/* A checkpoint of more epochs than are asked for is not where this run ends. */
static lk_status length_check(const lk__run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    int64_t epochs = r->options->epochs;
    bool beyond = at.epoch > epochs || (at.epoch == epochs && at.batch > 0);
    LK_CHECK(
        !beyond, LK_EINVAL,
        "the checkpoint of step %lld is beyond train.epochs=%lld, which end with step %lld; ask "
        "for more epochs, or use another folder",
        (long long)at.step, (long long)epochs, (long long)(epochs * at.batches));
    return LK_OK;
}

/* Say where a resumed run begins, and if that is its end. */
static void begin_report(const lk__run *r)
{
    char text[128];
    long long at = (long long)r->result.resumed, last = (long long)lk__run_last_step(r);
    if (at >= 0)
        snprintf(text, sizeof text, "resumed from the checkpoint of step %lld", at);
    else
        snprintf(text, sizeof text, "there is no checkpoint yet: starting at step 0");
    lk__run_message(r, text);
    snprintf(text, sizeof text,
             "the checkpoint is at step %lld and the run ends at step %lld: nothing to train", at,
             last);
    if (at >= last)
        lk__run_message(r, text);
}

/* Where the run begins. */
static lk_status begin(lk__run *r)
{
    r->result.resumed = -1;
    LK_TRY(lk__run_folder(r));
    LK_TRY(lk__saver_open(r->job, &r->progress, r->callbacks, &r->saver));
    if (r->saver && r->options->resume) {
        LK_TRY(lk__run_find_phase(r));
        LK_TRY(lk__saver_load(r->saver, &r->result.resumed));
        lk__run_message(r, lk__saver_messages(r->saver));
        LK_TRY(length_check(r));
        begin_report(r);
    }
    return LK_TRACE(lk__run_output(r));
}

/* ---- the loop ---- */

/* Whether this rank wants the run to end. */
static bool wants_stop(lk__run *r)
{
    enum { LOOK_NS = 500000000 };
    if (r->callbacks && r->callbacks->stop && r->callbacks->stop(r->callbacks->arg))
        return true;
    if (!r->output || (r->looked > 0 && lk_clock_ns() - r->looked < LOOK_NS))
        return false;
    r->looked = lk_clock_ns();
    return lk__output_stop(r->output);
}

static void time_add(lk_step_seconds *sum, const lk_step_seconds *t)
{
    sum->data += t->data;
    sum->forward += t->forward;
    sum->backward += t->backward;
    sum->update += t->update;
    sum->wait += t->wait;
    sum->exchange += t->exchange;
}

/* Whether the phase is over, because it is complete or nothing improves. */
static bool is_phase_over(lk__run *r)
{
    const lk_train_options *o = r->options;
    r->result.early = o->early_stop.patience > 0 && r->progress.without >= o->early_stop.patience;
    return r->trainer->step >= lk__run_phase_end(r) || r->result.early;
}

/* Whether the run is over.  One that has nothing left to do is complete, whatever it was asked. */
static bool is_over(lk__run *r)
{
    bool last = r->job->phase + 1 >= r->job->experiment->n_phases;
    bool complete = r->trainer->step >= lk__run_last_step(r) || (is_phase_over(r) && last);
    r->result.stopped = r->result.stopped && !complete;
    return complete || r->result.stopped;
}

/* Whether the run did all its steps and ends within an epoch, of which no report says anything yet. */
static bool ends_in_part(const lk__run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    return r->result.steps > 0 && at.batch > 0 && r->result.last.step != at.step &&
           !r->result.early && !r->result.stopped;
}

/* Whether a rank wants the run to end: one that is alone does so at once, and so do all before the
 * first step and after a report; in between they tell each other with the next step. */
static lk_status stop_ask(lk__run *r, bool reported)
{
    int32_t wanted = wants_stop(r);
    r->result.stopped = lk__control_votes(r->trainer->control, LK__VOTE_STOP) > 0;
    if (r->comm && reported)
        LK_TRY(lk_allreduce(r->comm, NULL, &wanted, 1, LK_I32, LK_REDUCE_MAX, "stop"));
    else if (r->comm && wanted)
        lk__control_vote(r->trainer->control, LK__VOTE_STOP, true);
    if (!r->comm || reported)
        r->result.stopped = r->result.stopped || wanted;
    return LK_OK;
}

static lk_status step(lk__run *r)
{
    lk_step_report report;
    LK_TRY(lk_trainer_step(r->trainer, &report));
    r->epoch_samples += report.samples;
    r->progress.rate = report.rate;
    time_add(&r->time, &report.time);
    r->result.steps++;
    lk_position at = lk_trainer_position(r->trainer);
    bool ended = at.batch == 0;
    r->result.epochs += ended;
    if (r->callbacks && r->callbacks->step)
        r->callbacks->step(r->callbacks->arg, r->job, &report);
    if (lk_period_is_due(r->options->log, &at))
        LK_TRY(lk__run_write_step(r, &report));
    bool evaluate = lk_period_is_due(r->options->evaluate, &at);
    if (ended || evaluate)
        LK_TRY(report_make(r, ended, evaluate));
    LK_TRY(stop_ask(r, ended || evaluate));
    if (!r->saver)
        return LK_OK;
    if (lk__saver_is_written(r->saver))
        LK_TRY(lk__run_save_finish(r));
    if (lk_period_is_due(r->options->checkpoint.every, &at) && !is_over(r))
        LK_TRY(lk__run_save(r, r->options->checkpoint.wait));
    return LK_OK;
}

lk_status lk_job_run(lk_job *job, const lk_run_callbacks *callbacks, lk_run_result *end)
{
    LK_FP_GUARD();
    LK_CHECK(job, LK_EINVAL, "job is NULL");
    lk__run r = {.job = job,
                 .trainer = job->trainer,
                 .comm = lk__trainer_comm(job->trainer),
                 .options = &job->experiment->train,
                 .callbacks = callbacks};
    int64_t ranks = lk__trainer_size(r.trainer);
    lk_status st;
    job->runs = true;
    LK_TRY_TO(done, lk__trainer_check_params(r.trainer));
    LK_TRY_TO(done, lk__run_monitor(&r));
    LK_TRY_TO(done, lk_agree(r.comm, lk_alloc_zero(&r.rank_time, ranks, sizeof *r.rank_time)));
    LK_TRY_TO(done, begin(&r));
    r.began = r.epoch_began = lk_clock_ns();
    LK_TRY_TO(done, stop_ask(&r, true));
    while (!is_over(&r))
        LK_TRY_TO(done, is_phase_over(&r) ? lk__run_next_phase(&r) : step(&r));
    if (ends_in_part(&r))
        LK_TRY_TO(done, part_report(&r));
    LK_TRY_TO(done, lk__run_finish(&r));
done:
    job->runs = false;
    lk__run_save_last(&r, st);
    if (st != LK_OK && r.output && !r.result.done && job->trainer)
        lk__output_failed(r.output, &r.result);
    lk__output_free(r.output);
    lk__saver_close(r.saver);
    lk_free(r.rank_time);
    if (end) {
        *end = r.result;
        end->last.rank_time = NULL;
    }
    return st;
}
