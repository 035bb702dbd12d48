/* What a run writes to its folder: metrics.jsonl, an event file, best.safetensors, and at the end
 * weights.safetensors and report.html. */
#include "train/output.h"

#include "base/grow.h"
#include "data/source.h"

#include <lockstep/alloc.h>
#include <lockstep/io.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FACTS = 8 + 2 * (1 + LK_MAX_METRICS), NAME = 96 };

/* A value at an epoch, for the curves of the report. */
typedef struct points {
    double *x, *y;
    int64_t n, x_room, y_room;
} points;

/* Curves of the loss, number 0, and of each metric, for training and evaluation. */
struct lk__output {
    lk_job *job;
    char folder[LK_PATH_SIZE];
    lk_lines *lines;
    lk_events *events;
    points train[1 + LK_MAX_METRICS], test[1 + LK_MAX_METRICS];
    const char *set; /* name of the evaluation set */
    char *confusion; /* the last one, as JSON */
};

static const lk_trainer *trainer_of(const lk__output *o)
{
    return lk_job_trainer(o->job);
}

/* The name of curve `i`: the loss, or a metric; NULL behind the last. */
static const char *curve_name(const lk__output *o, int i)
{
    bool lower;
    return i == 0 ? "loss" : lk_trainer_metric(trainer_of(o), i - 1, &lower);
}

static double curve_value(const lk_score *score, int i)
{
    return i == 0 ? score->loss : score->value[i - 1];
}

static lk_status points_add(points *p, double x, double y)
{
    LK_TRY(lk__grow(&p->x, &p->x_room, p->n + 1, sizeof *p->x));
    LK_TRY(lk__grow(&p->y, &p->y_room, p->n + 1, sizeof *p->y));
    p->x[p->n] = x;
    p->y[p->n++] = y;
    return LK_OK;
}

static lk_status path_of(const lk__output *o, const char *file, char path[LK_PATH_SIZE])
{
    LK_TRY(lk__path_join(o->folder, file, path, LK_PATH_SIZE));
    return LK_OK;
}

static lk_status output_open(lk__output *o)
{
    char path[LK_PATH_SIZE];
    LK_TRY(lk__folder_make(o->folder));
    LK_TRY(path_of(o, "metrics.jsonl", path));
    LK_TRY(lk_lines_open(path, false, &o->lines));
    LK_TRY(path_of(o, "events.out.tfevents.lockstep", path));
    LK_TRY(lk_events_open(path, false, &o->events));
    return LK_OK;
}

lk_status lk__output_new(lk_job *job, const char *folder, lk__output **out)
{
    lk__output *o = NULL;
    *out = NULL;
    LK_CHECK(strlen(folder) < LK_PATH_SIZE, LK_EINVAL, "the path of the output is too long");
    LK_TRY(lk_alloc_zero(&o, 1, sizeof *o));
    o->job = job;
    (void)lk_job_evaluation(job, &o->set);
    snprintf(o->folder, sizeof o->folder, "%s", folder);
    lk_status st = output_open(o);
    if (st != LK_OK) {
        lk__output_free(o);
        LK_TRY(st);
    }
    *out = o;
    return LK_OK;
}

void lk__output_free(lk__output *o)
{
    if (!o)
        return;
    if (lk_lines_close(o->lines) != LK_OK || lk_events_close(o->events) != LK_OK)
        lk_error_clear(); /* only after another failure: lk__output_end() closes and checks */
    for (int i = 0; i < 1 + LK_MAX_METRICS; i++) {
        lk_free(o->train[i].x);
        lk_free(o->train[i].y);
        lk_free(o->test[i].x);
        lk_free(o->test[i].y);
    }
    lk_free(o->confusion);
    lk_free(o);
}

static lk_status weights_save(const lk__output *o, const char *file)
{
    char path[LK_PATH_SIZE];
    LK_TRY(path_of(o, file, path));
    LK_TRY(lk_weights_save(lk_trainer_model(trainer_of(o)), path, NULL, 0));
    return LK_OK;
}

/* ---- while training ---- */

lk_status lk__output_step(lk__output *o, const lk_step_report *report)
{
    lk_scalar scalar[] = {{"step/loss", report->loss}, {"step/rate", report->rate}};
    lk_fact fact[] = {lk_fact_int("step", report->step + 1), lk_fact_real("loss", report->loss),
                      lk_fact_real("rate", report->rate), lk_fact_real("norm", report->norm)};
    LK_TRY(lk_lines_add(o->lines, fact, report->norm < 0 ? 3 : 4));
    LK_TRY(lk_events_add(o->events, report->step + 1, scalar, 2));
    return LK_OK;
}

/* What a report becomes: facts for the lines, scalars for the events, with their names. */
typedef struct record {
    lk_fact fact[MAX_FACTS];
    lk_scalar scalar[MAX_FACTS];
    char name[MAX_FACTS][NAME];
    int64_t n_facts, n_scalars;
} record;

/* Loss and metrics of one set. */
static lk_status record_score(record *r, lk__output *o, const char *set, const lk_score *score,
                              double epoch, points *curves)
{
    const char *name;
    for (int i = 0; (name = curve_name(o, i)); i++) {
        char *key = r->name[r->n_scalars];
        snprintf(key, NAME, "%.32s/%.48s", set, name);
        r->scalar[r->n_scalars++] = (lk_scalar){key, curve_value(score, i)};
        r->fact[r->n_facts++] = lk_fact_real(key, curve_value(score, i));
        LK_TRY(points_add(&curves[i], epoch, curve_value(score, i)));
    }
    return LK_OK;
}

/* Keep the table of confusion for the report. */
static lk_status confusion_keep(lk__output *o, const lk_score *score)
{
    const char *name;
    for (int i = 0; (name = curve_name(o, i + 1)); i++)
        if (strcmp(name, "confusion") == 0 && score->json[i]) {
            size_t n = strlen(score->json[i]) + 1;
            lk_free(o->confusion);
            o->confusion = NULL;
            LK_TRY(lk_alloc(&o->confusion, (int64_t)n, 1));
            memcpy(o->confusion, score->json[i], n);
        }
    return LK_OK;
}

lk_status lk__output_report(lk__output *o, const lk_epoch_report *report)
{
    record r = {.n_facts = 0};
    char hash[LK_HASH_TEXT];
    lk_position at = lk_trainer_position(trainer_of(o));
    double epoch = (double)at.step / (double)at.batches;
    r.fact[r.n_facts++] = lk_fact_int("epoch", report->epoch);
    r.fact[r.n_facts++] = lk_fact_int("step", report->step);
    if (report->complete)
        LK_TRY(record_score(&r, o, "train", &report->train, epoch, o->train));
    if (report->evaluated) {
        LK_TRY(record_score(&r, o, o->set, &report->test, epoch, o->test));
        LK_TRY(confusion_keep(o, &report->test));
    }
    r.fact[r.n_facts++] = lk_fact_real("rate", report->rate);
    r.fact[r.n_facts++] = lk_fact_real("seconds", report->seconds);
    r.fact[r.n_facts++] = lk_fact_text("state", lk_hash_text(report->state, hash));
    LK_TRY(lk_lines_add(o->lines, r.fact, r.n_facts));
    LK_TRY(lk_events_add(o->events, report->step, r.scalar, r.n_scalars));
    if (report->best)
        LK_TRY(weights_save(o, "best.safetensors"));
    return LK_OK;
}

/* ---- the end ---- */

/* The text of the experiment's file, NULL if it cannot be read any more. */
static char *experiment_text(const lk__output *o)
{
    lk__source *source = NULL;
    char *text = NULL, *terminated = NULL;
    const char *path = lk_job_experiment(o->job)->path;
    if (!path || lk__source_open(path, &source) != LK_OK) {
        lk_error_clear();
        return NULL;
    }
    int64_t n = lk__source_size(source);
    if (lk__source_load(source, 0, n, "the experiment", &text) == LK_OK &&
        lk_alloc_zero(&terminated, n + 1, 1) == LK_OK)
        memcpy(terminated, text, (size_t)n);
    else
        lk_error_clear();
    lk_free(text);
    lk__source_free(source);
    return terminated;
}

/* The charts: the loss and each metric, training and evaluation in one. */
static int64_t charts_make(const lk__output *o, lk_chart *chart, lk_curve (*curve)[2])
{
    int64_t n = 0;
    const char *name;
    for (int i = 0; (name = curve_name(o, i)); i++, n++) {
        curve[i][0] = (lk_curve){"training", o->train[i].x, o->train[i].y, o->train[i].n};
        curve[i][1] = (lk_curve){o->set, o->test[i].x, o->test[i].y, o->test[i].n};
        chart[n] = (lk_chart){name, "epoch", curve[i], o->test[i].n > 0 ? 2 : 1};
    }
    return n;
}

static lk_status page_write(const lk__output *o, const lk_run_end *end, const char *experiment)
{
    char path[LK_PATH_SIZE], hash[LK_HASH_TEXT];
    lk_chart chart[1 + LK_MAX_METRICS];
    lk_curve curve[1 + LK_MAX_METRICS][2];
    lk_fact headline[2 + LK_MAX_METRICS], fact[8];
    const lk_experiment *e = lk_job_experiment(o->job);
    const lk_score *score = end->last.evaluated ? &end->last.test : &end->last.train;
    const char *name;
    int64_t n = 0, facts = 0;
    for (int i = 0; (name = curve_name(o, i)); i++)
        headline[n++] = lk_fact_real(name, curve_value(score, i));
    fact[facts++] = lk_fact_text("state", lk_hash_text(end->state, hash));
    fact[facts++] = lk_fact_int("epochs", end->epochs);
    fact[facts++] = lk_fact_int("steps", end->steps);
    fact[facts++] = lk_fact_real("seconds", end->last.seconds);
    fact[facts++] = lk_fact_int("seed", e->seed);
    fact[facts++] = lk_fact_text(
        "data", lk_dataset_get_info(lk_loader_dataset(lk_job_set(o->job, LK_TRAIN)))->name);
    fact[facts++] = lk_fact_text("optimizer", e->optimizer.entry->name);
    lk_report report = {.title = e->path,
                        .subtitle = e->about,
                        .headline = headline,
                        .n_headline = n,
                        .chart = chart,
                        .n_charts = charts_make(o, chart, curve),
                        .model = lk_trainer_model(trainer_of(o)),
                        .confusion = o->confusion,
                        .fact = fact,
                        .n_facts = facts,
                        .experiment = experiment};
    LK_TRY(path_of(o, "report.html", path));
    LK_TRY(lk_report_write(path, &report));
    return LK_OK;
}

lk_status lk__output_end(lk__output *o, const lk_run_end *end)
{
    LK_TRY(weights_save(o, "weights.safetensors"));
    char *experiment = experiment_text(o);
    lk_status st = page_write(o, end, experiment);
    lk_free(experiment);
    LK_TRY(st);
    st = lk_lines_close(o->lines);
    o->lines = NULL;
    LK_TRY(st);
    st = lk_events_close(o->events);
    o->events = NULL;
    LK_TRY(st);
    return LK_OK;
}
