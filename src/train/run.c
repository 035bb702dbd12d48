/* A run: steps until the last epoch, evaluations in between, and what is kept of it. */
#include "train/job.h"
#include "train/output.h"

#include <lockstep/clock.h>

#include <math.h>
#include <string.h>

/* What a run remembers. */
typedef struct run {
    lk_job *job;
    const lk_train_options *options;
    const lk_watcher *watcher;
    lk__output *output; /* NULL: nothing is written */
    lk_run_end end;
    int64_t began, epoch_began; /* ns */
    int64_t epoch_samples;
    int64_t without; /* evaluations without progress */
    double rate;
    bool lower; /* whether lower is better in what early stopping looks at */
    int metric; /* its number, -1: the loss */
} run;

static double seconds_since(int64_t ns)
{
    return 1e-9 * (double)(lk_clock_ns() - ns);
}

/* Find what early stopping, and the best weights, look at. */
static lk_status monitor_find(run *r)
{
    const char *wanted = r->options->early_stop.metric, *name;
    r->metric = -1;
    r->lower = true;
    r->end.best = (double)NAN;
    if (!wanted || strcmp(wanted, "loss") == 0)
        return LK_OK;
    for (int i = 0; (name = lk_trainer_metric(r->job->trainer, i, &r->lower)); i++)
        if (strcmp(name, wanted) == 0) {
            r->metric = i;
            return LK_OK;
        }
    return LK_RAISE(LK_EINVAL, "train.early_stop.metric is \"%s\", which is not among the metrics",
                    wanted);
}

/* Whether the evaluation is better than all before; remembers it. */
static bool is_progress(run *r, const lk_epoch_report *report)
{
    double value = r->metric < 0 ? report->test.loss : report->test.value[r->metric];
    double change = r->options->early_stop.change;
    bool better = isnan(r->end.best) ||
                  (r->lower ? value < r->end.best - change : value > r->end.best + change);
    if (!better || isnan(value)) {
        r->without++;
        return false;
    }
    r->without = 0;
    r->end.best = value;
    r->end.best_epoch = report->epoch;
    return true;
}

/* The end of an epoch, an evaluation, or both. */
static lk_status report_make(run *r, bool complete, bool evaluate)
{
    lk_position at = lk_trainer_position(r->job->trainer);
    const char *name;
    lk_loader *loader = lk_job_evaluation(r->job, &name);
    lk_epoch_report report = {
        .epoch = at.epoch, .step = at.step, .complete = complete, .rate = r->rate};
    double seconds = seconds_since(r->epoch_began);
    if (complete) {
        LK_TRY(lk_trainer_score(r->job->trainer, &report.train));
        report.samples_per_s = seconds > 0 ? (double)r->epoch_samples / seconds : 0;
    }
    if (evaluate && loader) {
        int64_t before = lk_clock_ns();
        LK_TRY(lk_trainer_evaluate(r->job->trainer, loader, &report.test));
        r->epoch_began += lk_clock_ns() - before; /* the rate is that of steps */
        report.evaluated = true;
        report.best = is_progress(r, &report);
    }
    report.seconds = seconds_since(r->began);
    report.state = lk_trainer_hash(r->job->trainer);
    r->end.last = report;
    if (r->output)
        LK_TRY(lk__output_report(r->output, &report));
    if (r->watcher && r->watcher->epoch)
        r->watcher->epoch(r->watcher->arg, r->job, &report);
    if (complete) {
        r->epoch_began = lk_clock_ns();
        r->epoch_samples = 0;
    }
    return LK_OK;
}

static bool is_due(lk_period period, const lk_position *at, bool epoch_ended)
{
    if (period.n == 0)
        return false;
    if (period.steps)
        return at->step % period.n == 0;
    return epoch_ended && at->epoch % period.n == 0;
}

static lk_status step(run *r)
{
    lk_step_report report;
    LK_TRY(lk_trainer_step(r->job->trainer, &report));
    r->epoch_samples += report.samples;
    r->rate = report.rate;
    r->end.steps++;
    lk_position at = lk_trainer_position(r->job->trainer);
    bool ended = at.batch == 0;
    r->end.epochs += ended;
    if (r->watcher && r->watcher->step)
        r->watcher->step(r->watcher->arg, r->job, &report);
    if (r->output && is_due(r->options->log, &at, ended))
        LK_TRY(lk__output_step(r->output, &report));
    bool evaluate = is_due(r->options->evaluate, &at, ended);
    if (ended || evaluate)
        LK_TRY(report_make(r, ended, evaluate));
    return LK_OK;
}

/* Whether the run is over. */
static bool is_over(run *r)
{
    lk_position at = lk_trainer_position(r->job->trainer);
    const lk_train_options *o = r->options;
    r->end.early = o->early_stop.patience > 0 && r->without >= o->early_stop.patience;
    r->end.stopped = r->watcher && r->watcher->stop && r->watcher->stop(r->watcher->arg);
    return at.epoch >= o->epochs || (o->steps > 0 && at.step >= o->steps) || r->end.early ||
           r->end.stopped;
}

static lk_status run_all(run *r)
{
    LK_TRY(monitor_find(r));
    if (r->options->output)
        LK_TRY(lk__output_new(r->job, r->options->output, &r->output));
    r->began = r->epoch_began = lk_clock_ns();
    while (!is_over(r))
        LK_TRY(step(r));
    r->end.state = lk_trainer_hash(r->job->trainer);
    if (r->output)
        LK_TRY(lk__output_end(r->output, &r->end));
    return LK_OK;
}

lk_status lk_job_run(lk_job *job, const lk_watcher *watcher, lk_run_end *end)
{
    LK_CHECK(job, LK_EINVAL, "job is NULL");
    run r = {.job = job, .options = &job->experiment->train, .watcher = watcher};
    lk_status st = run_all(&r);
    lk__output_free(r.output);
    if (end)
        *end = r.end;
    LK_TRY(st);
    return LK_OK;
}
