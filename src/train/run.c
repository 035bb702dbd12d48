/* A run: steps until the last epoch, evaluations in between, and what is kept of it.
 *
 * All ranks do the same at the same step.  What may differ between them (a signal, a disk that is
 * full, the clock) is told with the sums of a step, or agreed on, before anybody acts on it.
 */
#include "base/fpenv.h"
#include "io/disk.h"
#include "train/job.h"
#include "train/output.h"
#include "train/save.h"
#include "train/trainer.h"

#include <lockstep/clock.h>

#include <math.h>
#include <string.h>

/* What a run remembers. */
typedef struct run {
    lk_job *job;
    lk_trainer *trainer;
    lk_comm *comm; /* NULL: this rank is alone */
    const lk_train_options *options;
    const lk_watcher *watcher;
    lk__output *output; /* on rank 0; NULL: nothing is written */
    lk__saver *saver;   /* NULL: nothing is saved */
    lk__progress progress;
    lk_run_end end;
    int64_t began, epoch_began, looked; /* ns */
    int64_t epoch_samples;
    lk_step_time time;  /* of the epoch's steps on this rank */
    lk__rank_note *all; /* of all ranks: times and states */
    lk_step_time *rank_time;
    char no_checkpoint[640]; /* why the last one could not be written */
    bool lower;              /* whether lower is better in what early stopping looks at */
    int metric;              /* its number, -1: the loss */
} run;

static double seconds_since(int64_t ns)
{
    return 1e-9 * (double)(lk_clock_ns() - ns);
}

static void tell(const run *r, const char *text)
{
    bool first = lk_team_rank(r->trainer->team) == 0;
    if (first && text[0] && r->watcher && r->watcher->message)
        r->watcher->message(r->watcher->arg, text);
}

/* What could not be written is told (unless `what` is NULL), and the run goes on; or it stops, if the
 * experiment says so. */
static lk_status failed(const run *r, const char *what, lk_status st)
{
    char text[640];
    if (st == LK_OK || lk__is_end(st) || r->options->checkpoint.on_error == LK_ON_ERROR_STOP)
        return st;
    if (what) {
        snprintf(text, sizeof text, "warning: %s: %s", what, lk_error_message());
        tell(r, text);
    }
    lk_error_clear();
    return LK_OK;
}

/* ---- files of rank 0 ---- */

static void disk_tell(void *arg, const char *text)
{
    tell(arg, text);
}

static void warnings_tell(const run *r)
{
    if (!r->output)
        return;
    lk__out *warnings = &lk__output_ledger(r->output)->warnings;
    tell(r, warnings->n > 0 ? warnings->text : "");
    lk__out_clear(warnings);
}

/* Let rank 0 write to its files, while the others wait.  What it could not write is told, and the run
 * goes on or stops, as the experiment says. */
static lk_status files_do(run *r, lk__work_fn *fn, void *arg)
{
    lk__disk disk = {.comm = r->comm, .tell = disk_tell, .arg = r};
    if (!r->options->output)
        return LK_OK;
    lk_status st = lk__disk_do(&disk, r->output ? fn : NULL, arg);
    warnings_tell(r);
    LK_TRY(failed(r, NULL, lk_agree(r->comm, st)));
    return LK_OK;
}

/* What one of the calls below is to write. */
typedef struct to_write {
    lk__output *output;
    const void *report;
    bool before;
} to_write;

static lk_status step_write(void *arg)
{
    const to_write *w = arg;
    return lk__output_step(w->output, w->report);
}

static lk_status report_write(void *arg)
{
    const to_write *w = arg;
    return lk__output_report(w->output, w->report);
}

static lk_status end_write(void *arg)
{
    const to_write *w = arg;
    return lk__output_end(w->output, w->report, w->before);
}

static lk_status sync_write(void *arg)
{
    const to_write *w = arg;
    return lk__output_sync(w->output);
}

static lk_status files_write(run *r, lk__work_fn *fn, const void *report)
{
    to_write w = {.output = r->output, .report = report};
    w.before = r->end.resumed >= 0 && r->end.steps == 0 && !r->end.stopped;
    LK_TRY(files_do(r, fn, &w));
    return LK_OK;
}

/* ---- what is better ---- */

/* Find what early stopping, and the best weights, look at. */
static lk_status monitor_find(run *r)
{
    const char *wanted = r->options->early_stop.metric, *name;
    r->metric = -1;
    r->lower = true;
    r->progress.best = (double)NAN;
    r->progress.best_step = -1;
    if (!wanted || strcmp(wanted, "loss") == 0)
        return LK_OK;
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
static bool is_progress(run *r, const lk_epoch_report *report)
{
    lk__progress *p = &r->progress;
    double value = r->metric < 0 ? report->test.loss : report->test.value[r->metric];
    double change = r->options->early_stop.change;
    bool better = isnan(p->best) ||
                  (r->lower ? value < p->best - change : value > p->best + change);
    if (!better || isnan(value)) {
        p->without++;
        return false;
    }
    p->without = 0;
    p->best = value;
    p->best_epoch = report->epoch;
    p->best_step = report->step;
    return true;
}

/* ---- reports ---- */

/* Times and states of all ranks; the states must be one. */
static lk_status ranks_compare(run *r, lk_epoch_report *report)
{
    lk__rank_note mine = {.time = r->time, .state = report->state};
    report->ranks = lk_team_size(r->trainer->team);
    report->slowest = -1;
    r->all[0] = mine;
    if (r->comm)
        LK_TRY(lk_allgather(r->comm, &mine, r->all, sizeof mine, LK_U8, "times and states"));
    for (int k = 0; k < report->ranks; k++) {
        char one[LK_HASH_TEXT], other[LK_HASH_TEXT];
        LK_CHECK(r->all[k].state == r->all[0].state, LK_ESTATE,
                 "after step %lld rank %d has the state %s and rank 0 %s: a machine computes "
                 "wrongly, or the ranks run different programs",
                 (long long)report->step, k, lk_hash_text(r->all[k].state, one),
                 lk_hash_text(r->all[0].state, other));
        r->rank_time[k] = r->all[k].time;
    }
    if (!report->complete)
        return LK_OK;
    report->rank_time = r->rank_time;
    for (int k = 0; r->comm && k < report->ranks; k++)
        if (report->slowest < 0 ||
            lk_step_compute(&r->rank_time[k]) > lk_step_compute(&r->rank_time[report->slowest]))
            report->slowest = k;
    return LK_OK;
}

static double samples_per_s(const run *r)
{
    double seconds = seconds_since(r->epoch_began);
    return seconds > 0 ? (double)r->epoch_samples / seconds : 0;
}

/* What every report ends with. */
static lk_status report_finish(run *r, lk_epoch_report *report)
{
    report->seconds = seconds_since(r->began);
    report->state = lk_trainer_hash(r->trainer);
    LK_TRY(ranks_compare(r, report));
    return LK_OK;
}

static void report_tell(run *r, const lk_epoch_report *report)
{
    if (r->watcher && r->watcher->epoch)
        r->watcher->epoch(r->watcher->arg, r->job, report);
}

/* The end of an epoch, an evaluation, or both. */
static lk_status report_make(run *r, bool complete, bool evaluate)
{
    lk_position at = lk_trainer_position(r->trainer);
    const char *name;
    lk_loader *loader = lk_job_evaluation(r->job, &name);
    lk_epoch_report report = {
        .epoch = at.epoch, .step = at.step, .complete = complete, .rate = r->progress.rate};
    if (complete)
        report.samples_per_s = samples_per_s(r);
    LK_TRY(lk__state_check(r->trainer));
    if (complete)
        LK_TRY(lk_trainer_score(r->trainer, &report.train));
    if (evaluate && loader) {
        int64_t before = lk_clock_ns();
        LK_TRY(lk_trainer_evaluate(r->trainer, loader, &report.test));
        r->epoch_began += lk_clock_ns() - before; /* the rate is that of steps */
        report.evaluated = true;
        report.best = is_progress(r, &report);
    }
    LK_TRY(report_finish(r, &report));
    r->end.last = report;
    LK_TRY(files_write(r, report_write, &report));
    report_tell(r, &report);
    if (complete) {
        r->epoch_began = lk_clock_ns();
        r->epoch_samples = 0;
        r->time = (lk_step_time){0};
    }
    return LK_OK;
}

/* The part of an epoch in which `train.steps` end.  It is told but not written: the files are those of
 * a run that goes on from here, which reports the whole epoch. */
static lk_status part_report(run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    lk_epoch_report report = {.epoch = at.epoch,
                              .step = at.step,
                              .rate = r->progress.rate,
                              .samples_per_s = samples_per_s(r)};
    LK_TRY(lk__state_check(r->trainer));
    LK_TRY(lk__score_so_far(r->trainer, &report.train));
    LK_TRY(report_finish(r, &report));
    if (r->end.last.step == 0)
        r->end.last = report;
    report_tell(r, &report);
    return LK_OK;
}

/* ---- checkpoints ---- */

/* A save has ended.  If it failed: go on with a warning, or stop, as the experiment says. */
static lk_status save_ended(run *r, int64_t step, lk_status st)
{
    char what[64];
    snprintf(what, sizeof what, "no checkpoint of step %lld", (long long)step);
    snprintf(r->no_checkpoint, sizeof r->no_checkpoint, "%s",
             st == LK_OK ? "" : lk_error_message());
    st = failed(r, what, st);
    tell(r, lk__saver_messages(r->saver));
    LK_TRY(st);
    return LK_OK;
}

/* Wait for the save that is under way, if one is. */
static lk_status save_finish(run *r)
{
    int64_t step = lk__saver_saving(r->saver);
    if (step >= 0)
        LK_TRY(save_ended(r, step, lk__saver_finish(r->saver)));
    return LK_OK;
}

/* How long the files are that grow, and which are missing, as all ranks know it. */
static lk_status files_share(run *r)
{
    int64_t known[3] = {0};
    if (r->output) {
        lk__output_sizes(r->output, &known[0], &known[1]);
        known[2] = lk__output_ledger(r->output)->missing;
    }
    if (r->comm)
        LK_TRY(lk_bcast(r->comm, known, 3, LK_I64, 0, "files"));
    r->progress.lines_bytes = known[0];
    r->progress.events_bytes = known[1];
    r->progress.missing = known[2];
    return LK_OK;
}

static lk_status save(run *r, bool wait)
{
    LK_TRY(save_finish(r));
    LK_TRY(files_write(r, sync_write, NULL));
    LK_TRY(files_share(r));
    lk_status st = lk__saver_begin(r->saver);
    if (st != LK_OK)
        LK_TRY(save_ended(r, lk_trainer_position(r->trainer).step, st));
    if (wait)
        LK_TRY(save_finish(r));
    return LK_OK;
}

/* A checkpoint of more epochs than are asked for is not where this run ends. */
static lk_status length_check(const run *r)
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

/* The step that the run ends with, unless it stops before. */
static int64_t last_step(const run *r)
{
    int64_t all = r->options->epochs * lk_trainer_position(r->trainer).batches;
    return r->options->steps > 0 && r->options->steps < all ? r->options->steps : all;
}

/* Say where a resumed run begins, and if that is its end. */
static void begin_tell(const run *r)
{
    char text[128];
    long long at = (long long)r->end.resumed, last = (long long)last_step(r);
    if (at >= 0)
        snprintf(text, sizeof text, "resumed from the checkpoint of step %lld", at);
    else
        snprintf(text, sizeof text, "there is no checkpoint yet: starting at step 0");
    tell(r, text);
    snprintf(text, sizeof text,
             "the checkpoint is at step %lld and the run ends at step %lld: nothing to train", at,
             last);
    if (at >= last)
        tell(r, text);
}

static lk_status folder_make(void *arg)
{
    run *r = arg;
    return lk__storage_folder(r->options->output);
}

static lk_status output_make(void *arg)
{
    run *r = arg;
    return lk__output_new(r->job, r->options->output, r->end.resumed >= 0 ? &r->progress : NULL,
                          &r->output);
}

/* Do what must work before the run begins, on rank 0 if there is an output folder. */
static lk_status prepare(run *r, lk__work_fn *fn)
{
    lk__disk disk = {.comm = r->comm, .tell = disk_tell, .arg = r};
    bool writes = r->options->output && lk_team_rank(r->trainer->team) == 0;
    LK_TRY(lk_agree(r->comm, lk__disk_do(&disk, writes ? fn : NULL, r)));
    return LK_OK;
}

/* Where the run begins. */
static lk_status begin(run *r)
{
    r->end.resumed = -1;
    LK_TRY(prepare(r, folder_make));
    LK_TRY(lk__saver_open(r->job, &r->progress, r->watcher, &r->saver));
    if (r->saver && r->options->resume) {
        LK_TRY(lk__saver_load(r->saver, &r->end.resumed));
        tell(r, lk__saver_messages(r->saver));
        LK_TRY(length_check(r));
        begin_tell(r);
    }
    LK_TRY(prepare(r, output_make));
    warnings_tell(r);
    return LK_OK;
}

/* ---- the loop ---- */

static bool is_due(lk_period period, const lk_position *at, bool epoch_ended)
{
    if (period.n == 0)
        return false;
    if (period.steps)
        return at->step % period.n == 0;
    return epoch_ended && at->epoch % period.n == 0;
}

/* Whether this rank wants the run to end. */
static bool wants_stop(run *r)
{
    enum { LOOK_NS = 500000000 };
    if (r->watcher && r->watcher->stop && r->watcher->stop(r->watcher->arg))
        return true;
    if (!r->output || (r->looked > 0 && lk_clock_ns() - r->looked < LOOK_NS))
        return false;
    r->looked = lk_clock_ns();
    return lk__output_stop(r->output);
}

static void time_add(lk_step_time *sum, const lk_step_time *t)
{
    sum->data += t->data;
    sum->forward += t->forward;
    sum->backward += t->backward;
    sum->update += t->update;
    sum->wait += t->wait;
    sum->exchange += t->exchange;
}

/* Whether the run is over.  One that has nothing left to do is complete, whatever it was asked. */
static bool is_over(run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    const lk_train_options *o = r->options;
    r->end.early = o->early_stop.patience > 0 && r->progress.without >= o->early_stop.patience;
    bool complete = at.step >= last_step(r) || r->end.early;
    r->end.stopped = r->end.stopped && !complete;
    return complete || r->end.stopped;
}

/* Whether the run did all its steps and ends within an epoch, of which no report says anything yet. */
static bool ends_in_part(const run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    return r->end.steps > 0 && at.batch > 0 && r->end.last.step != at.step && !r->end.early &&
           !r->end.stopped;
}

/* Whether a rank wants the run to end: one that is alone does so at once, and so do all before the
 * first step and after a report; in between they tell each other with the next step. */
static lk_status stop_ask(run *r, bool reported)
{
    int32_t wanted = wants_stop(r);
    r->end.stopped = r->trainer->heard[LK__NOTE_STOP] > 0;
    if (r->comm && reported)
        LK_TRY(lk_allreduce(r->comm, NULL, &wanted, 1, LK_I32, LK_FOLD_MAX, "stop"));
    else if (r->comm && wanted)
        r->trainer->note[LK__NOTE_STOP] = 1;
    if (!r->comm || reported)
        r->end.stopped = r->end.stopped || wanted;
    return LK_OK;
}

static lk_status step(run *r)
{
    lk_step_report report;
    LK_TRY(lk_trainer_step(r->trainer, &report));
    r->epoch_samples += report.samples;
    r->progress.rate = report.rate;
    time_add(&r->time, &report.time);
    r->end.steps++;
    lk_position at = lk_trainer_position(r->trainer);
    bool ended = at.batch == 0;
    r->end.epochs += ended;
    if (r->watcher && r->watcher->step)
        r->watcher->step(r->watcher->arg, r->job, &report);
    if (is_due(r->options->log, &at, ended))
        LK_TRY(files_write(r, step_write, &report));
    bool evaluate = is_due(r->options->evaluate, &at, ended);
    if (ended || evaluate)
        LK_TRY(report_make(r, ended, evaluate));
    LK_TRY(stop_ask(r, ended || evaluate));
    if (!r->saver)
        return LK_OK;
    if (lk__saver_is_written(r->saver))
        LK_TRY(save_finish(r));
    if (is_due(r->options->checkpoint.every, &at, ended) && !is_over(r))
        LK_TRY(save(r, r->options->checkpoint.wait));
    return LK_OK;
}

/* What is not on disk, on rank 0, with the reasons. */
static lk_status missing_raise(const run *r)
{
    static const char *const name[] = {NULL,          "weights.safetensors", "best.safetensors",
                                       "report.html", "metrics.jsonl",       "the event file"};
    char list[160] = "";
    const char *reason = r->no_checkpoint, *files = "";
    if (r->end.missing & LK_MISSING_CHECKPOINT)
        snprintf(list, sizeof list, "the checkpoint of step %lld",
                 (long long)lk_trainer_position(r->trainer).step);
    for (int i = 1; i < (int)(sizeof name / sizeof name[0]); i++) {
        size_t n = strlen(list);
        if (r->end.missing >> i & 1)
            snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", name[i]);
    }
    if (r->output)
        files = lk__output_ledger(r->output)->reason;
    return LK_RAISE(LK_EIO, "not all is on disk: %s %s missing (%.300s); mend that and resume",
                    list, strchr(list, ',') ? "are" : "is", reason[0] ? reason : files);
}

/* A run that did all its steps is done when it is on disk; one that was stopped, when its checkpoint
 * is.  Without a folder nothing is to be. */
static lk_status missing_check(run *r)
{
    lk_status st = LK_OK;
    bool first = lk_team_rank(r->trainer->team) == 0;
    unsigned fatal = r->end.stopped ? LK_MISSING_CHECKPOINT : ~0U;
    if (first && (r->end.missing & fatal))
        st = missing_raise(r);
    LK_TRY(lk_agree(r->comm, st));
    return LK_OK;
}

/* The files, then the last checkpoint: one that says that the run is complete. */
static lk_status finish(run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    r->end.best = r->progress.best;
    r->end.best_epoch = r->progress.best_epoch;
    r->end.state = lk_trainer_hash(r->trainer);
    r->end.done = true;
    LK_TRY(files_write(r, end_write, &r->end));
    LK_TRY(files_share(r));
    bool wanted = r->saver && (r->options->checkpoint.every.n > 0 || r->end.stopped);
    if (r->saver)
        LK_TRY(save_finish(r));
    if (wanted && lk__saver_saved(r->saver) != at.step)
        LK_TRY(save(r, true));
    r->end.saved = r->saver && lk__saver_saved(r->saver) == at.step;
    r->end.missing = (unsigned)r->progress.missing;
    if (wanted && !r->end.saved)
        r->end.missing |= LK_MISSING_CHECKPOINT;
    LK_TRY(missing_check(r));
    return LK_OK;
}

static lk_status run_all(run *r)
{
    int64_t ranks = lk_team_size(r->trainer->team);
    LK_TRY(monitor_find(r));
    lk_status st = lk_alloc_zero(&r->all, ranks, sizeof *r->all);
    if (st == LK_OK)
        st = lk_alloc_zero(&r->rank_time, ranks, sizeof *r->rank_time);
    LK_TRY(lk_agree(r->comm, st));
    LK_TRY(begin(r));
    r->began = r->epoch_began = lk_clock_ns();
    LK_TRY(stop_ask(r, true));
    while (!is_over(r))
        LK_TRY(step(r));
    if (ends_in_part(r))
        LK_TRY(part_report(r));
    LK_TRY(finish(r));
    return LK_OK;
}

/* A run that fails still publishes what it has written, if ranks can talk to each other. */
static void save_last(run *r, lk_status st)
{
    if (st == LK_OK || !r->saver || lk__is_end(st))
        return;
    lk__failure failure;
    lk__failure_get(&failure);
    if (lk__saver_finish(r->saver) == LK_OK)
        return;
    tell(r, "warning: the last checkpoint could not be written");
    lk__failure_set(&failure); /* that which the caller is to see */
}

lk_status lk_job_run(lk_job *job, const lk_watcher *watcher, lk_run_end *end)
{
    LK_FP_GUARD();
    LK_CHECK(job, LK_EINVAL, "job is NULL");
    LK_TRY(lk__trainer_check_params(job->trainer));
    run r = {.job = job,
             .trainer = job->trainer,
             .comm = lk__trainer_comm(job->trainer),
             .options = &job->experiment->train,
             .watcher = watcher};
    lk_status st = run_all(&r);
    save_last(&r, st);
    if (st != LK_OK && r.output && !r.end.done)
        lk__output_failed(r.output, &r.end);
    lk__output_free(r.output);
    lk__saver_close(r.saver);
    lk_free(r.all);
    lk_free(r.rank_time);
    if (end) {
        *end = r.end;
        end->last.rank_time = NULL;
    }
    LK_TRY(st);
    return LK_OK;
}
