/* What a run writes to its folder: metrics.jsonl, an event file, best.safetensors, and at the end
 * weights.safetensors and report.html. */
#include "train/output.h"

#include "base/grow.h"
#include "base/number.h"
#include "data/source.h"

#include <lockstep/alloc.h>
#include <lockstep/io.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FACTS = 16 + 2 * (1 + LK_MAX_METRICS), NAME = 96 };

#define LINES "metrics.jsonl"
#define EVENTS "events.out.tfevents.lockstep"

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

/* ---- going on ---- */

/* Cut a file to `bytes`, if it is longer. */
static lk_status file_cut(const char *path, int64_t bytes)
{
    struct stat info;
    if (stat(path, &info) == 0 && info.st_size > bytes)
        LK_CHECK(truncate(path, bytes) == 0, LK_EIO, "%s: cannot be cut to %lld bytes: %s", path,
                 (long long)bytes, strerror(errno));
    return LK_OK;
}

/* A number of a line of metrics, by its key; false if the line has none. */
static bool line_number(const char *line, const char *set, const char *name, double *out)
{
    char key[NAME + 8];
    snprintf(key, sizeof key, "\"%.32s%s%.48s\":", set, *set ? "/" : "", name);
    const char *at = strstr(line, key);
    if (!at)
        return false;
    char number[LK_NUMBER_TEXT];
    at += strlen(key);
    at += strspn(at, " ");
    size_t n = strcspn(at, ",}");
    if (n >= sizeof number)
        return false;
    memcpy(number, at, n);
    number[n] = '\0';
    return lk__number_read_real(number, out) == NULL;
}

/* The points of the curves from the lines of an earlier part of the run. */
static lk_status curves_read(lk__output *o, char *text)
{
    lk_position at = lk_trainer_position(trainer_of(o));
    for (char *line = text, *next; line && *line; line = next) {
        double step, value;
        const char *name;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (!strstr(line, "\"epoch\":") || !line_number(line, "", "step", &step))
            continue;
        double epoch = step / (double)at.batches;
        for (int i = 0; (name = curve_name(o, i)); i++) {
            if (line_number(line, "train", name, &value))
                LK_TRY(points_add(&o->train[i], epoch, value));
            if (line_number(line, o->set, name, &value))
                LK_TRY(points_add(&o->test[i], epoch, value));
        }
    }
    return LK_OK;
}

/* The text of a file; NULL if it cannot be read. */
static char *file_text(const char *path)
{
    lk__source *source = NULL;
    char *text = NULL, *terminated = NULL;
    if (!path || lk__source_open(path, &source) != LK_OK) {
        lk_error_clear();
        return NULL;
    }
    int64_t n = lk__source_size(source);
    if (lk__source_load(source, 0, n, "the text", &text) == LK_OK &&
        lk_alloc_zero(&terminated, n + 1, 1) == LK_OK)
        memcpy(terminated, text, (size_t)n);
    else
        lk_error_clear();
    lk_free(text);
    lk__source_free(source);
    return terminated;
}

/* ---- the files ---- */

static lk_status output_open(lk__output *o, const lk__progress *resumed)
{
    char path[LK_PATH_SIZE];
    LK_TRY(path_of(o, LINES, path));
    if (resumed) {
        LK_TRY(file_cut(path, resumed->lines_bytes));
        char *text = file_text(path);
        lk_status st = text ? curves_read(o, text) : LK_OK;
        lk_free(text);
        LK_TRY(st);
    }
    LK_TRY(lk_lines_open(path, resumed != NULL, &o->lines));
    LK_TRY(path_of(o, EVENTS, path));
    if (resumed)
        LK_TRY(file_cut(path, resumed->events_bytes));
    LK_TRY(lk_events_open(path, resumed != NULL, &o->events));
    return LK_OK;
}

lk_status lk__output_new(lk_job *job, const char *folder, const lk__progress *resumed,
                         lk__output **out)
{
    lk__output *o = NULL;
    *out = NULL;
    LK_CHECK(strlen(folder) < LK_PATH_SIZE, LK_EINVAL, "the path of the output is too long");
    LK_TRY(lk_alloc_zero(&o, 1, sizeof *o));
    o->job = job;
    (void)lk_job_evaluation(job, &o->set);
    snprintf(o->folder, sizeof o->folder, "%s", folder);
    lk_status st = output_open(o, resumed);
    if (st != LK_OK) {
        lk__output_free(o);
        LK_TRY(st);
    }
    *out = o;
    return LK_OK;
}

static int64_t file_bytes(const lk__output *o, const char *file)
{
    char path[LK_PATH_SIZE];
    struct stat info;
    if (path_of(o, file, path) != LK_OK) {
        lk_error_clear();
        return 0;
    }
    return stat(path, &info) == 0 ? info.st_size : 0;
}

void lk__output_sizes(const lk__output *o, int64_t *lines, int64_t *events)
{
    *lines = file_bytes(o, LINES);
    *events = file_bytes(o, EVENTS);
}

bool lk__output_stop(const lk__output *o)
{
    char path[LK_PATH_SIZE];
    if (path_of(o, "STOP", path) != LK_OK) {
        lk_error_clear();
        return false;
    }
    return unlink(path) == 0;
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

/* Who was slow, and how much of the epoch went where on average. */
static void record_ranks(record *r, const lk_epoch_report *report)
{
    double compute = 0, wait = 0, exchange = 0;
    for (int k = 0; k < report->ranks; k++) {
        compute += lk_step_compute(&report->rank_time[k]) / report->ranks;
        wait += report->rank_time[k].wait / report->ranks;
        exchange += report->rank_time[k].exchange / report->ranks;
    }
    r->fact[r->n_facts++] = lk_fact_int("ranks", report->ranks);
    r->fact[r->n_facts++] = lk_fact_real("compute_s", compute);
    r->fact[r->n_facts++] = lk_fact_real("exchange_s", exchange);
    r->fact[r->n_facts++] = lk_fact_real("wait_s", wait);
    r->fact[r->n_facts++] = lk_fact_int("slowest_rank", report->slowest);
    r->fact[r->n_facts++] = lk_fact_real("slowest_compute_s",
                                         lk_step_compute(&report->rank_time[report->slowest]));
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
    if (report->slowest >= 0)
        record_ranks(&r, report);
    r.fact[r.n_facts++] = lk_fact_text("state", lk_hash_text(report->state, hash));
    LK_TRY(lk_lines_add(o->lines, r.fact, r.n_facts));
    LK_TRY(lk_events_add(o->events, report->step, r.scalar, r.n_scalars));
    if (report->best)
        LK_TRY(weights_save(o, "best.safetensors"));
    return LK_OK;
}

/* ---- the end ---- */

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
    lk_position at = lk_trainer_position(trainer_of(o)); /* of the whole run, resumed or not */
    const char *name;
    int64_t n = 0, facts = 0;
    for (int i = 0; (name = curve_name(o, i)); i++)
        headline[n++] = lk_fact_real(name, curve_value(score, i));
    fact[facts++] = lk_fact_text("state", lk_hash_text(end->state, hash));
    fact[facts++] = lk_fact_int("epochs", at.epoch);
    fact[facts++] = lk_fact_int("steps", at.step);
    if (end->resumed >= 0)
        fact[facts++] = lk_fact_int("resumed from the checkpoint of step", end->resumed);
    fact[facts++] = lk_fact_real(end->resumed >= 0 ? "seconds since then" : "seconds",
                                 end->last.seconds);
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

lk_status lk__output_close(lk__output *o)
{
    lk_status st = lk_lines_close(o->lines);
    o->lines = NULL;
    LK_TRY(st);
    st = lk_events_close(o->events);
    o->events = NULL;
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__output_end(lk__output *o, const lk_run_end *end)
{
    LK_TRY(weights_save(o, "weights.safetensors"));
    char *experiment = file_text(lk_job_experiment(o->job)->path);
    lk_status st = page_write(o, end, experiment);
    lk_free(experiment);
    LK_TRY(st);
    LK_TRY(lk__output_close(o));
    (void)lk__output_stop(o); /* too late: the run is complete */
    return LK_OK;
}
