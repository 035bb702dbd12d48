/* What a run writes to its folder: metrics.jsonl, an event file, best.safetensors, and at the end
 * weights.safetensors and report.html. */
#include "train/output.h"

#include "base/failure.h"
#include "base/grow.h"
#include "base/number.h"
#include "data/source.h"
#include "io/events.h"
#include "io/lines.h"
#include "train/best.h"

#include <lockstep/alloc.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FACTS = 16 + 2 * (1 + LK_MAX_METRICS), NAME = 96 };

#define LINES "metrics.jsonl"
#define EVENTS "events.out.tfevents.lockstep"
#define BEST "best.safetensors"
#define WEIGHTS "weights.safetensors"
#define REPORT "report.html"

/* A value at an epoch, for the curves of the report. */
typedef struct points {
    double *x, *y;
    int64_t n, x_room, y_room;
} points;

/* Curves of the loss, number 0, and of each metric, for training and evaluation. */
struct lk__output {
    lk_job *job;
    char folder[LK_PATH_SIZE];
    lk_lines *lines; /* NULL when all is written, as the events are */
    lk_events *events;
    int64_t lines_bytes, events_bytes; /* when they were closed */
    points train[1 + LK_MAX_METRICS], test[1 + LK_MAX_METRICS];
    const char *set; /* name of the evaluation set */
    char *confusion; /* the last one, as JSON */
    lk__best best;
    lk__ledger ledger;
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

/* Whether curve `i` is drawn: not of a metric without a number. */
static bool curve_is_drawn(const lk__output *o, int i)
{
    return i == 0 || lk_trainer_metric_is_number(trainer_of(o), i - 1);
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

/* ---- what could not be written ---- */

static void file_ended(lk__output *o, lk_missing file, const char *name, lk_status st,
                       lk_status *first)
{
    lk__ledger_note(&o->ledger, file, name, st, first);
}

static lk_status files_status(const lk__output *o, lk_status first)
{
    return lk__ledger_status(&o->ledger, first);
}

lk__ledger *lk__output_ledger(lk__output *o)
{
    return &o->ledger;
}

/* ---- going on ---- */

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

static int64_t file_bytes(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? info.st_size : 0;
}

/* How much of a file that grows was there when the checkpoint was saved. */
static int64_t go_on_from(lk__output *o, const char *path, lk_missing file, int64_t bytes)
{
    int64_t there = file_bytes(path);
    if (there >= bytes)
        lk__ledger_clear(&o->ledger, file);
    else if (there > 0 || o->ledger.missing & file) {
        lk__out_put(&o->ledger.warnings, "warning: ");
        lk__out_put(&o->ledger.warnings, path);
        lk__out_format(&o->ledger.warnings, ": has %lld bytes, and had %lld at the checkpoint\n",
                       (long long)there, (long long)bytes);
    }
    return bytes;
}

static lk_status curves_go_on(lk__output *o, const char *path, int64_t bytes)
{
    char *text = file_text(path);
    if (text && (int64_t)strlen(text) > bytes)
        text[bytes] = '\0';
    lk_status st = text ? curves_read(o, text) : LK_OK;
    lk_free(text);
    LK_TRY(st);
    return LK_OK;
}

static lk_status output_open(lk__output *o, const lk__progress *resumed)
{
    char path[LK_PATH_SIZE];
    int64_t bytes = 0;
    lk__ledger *l = &o->ledger;
    l->missing = resumed ? (unsigned)resumed->missing & ~(unsigned)LK_MISSING_CHECKPOINT : 0;
    LK_TRY(path_of(o, BEST, o->best.path));
    o->best.job = o->job;
    o->best.ledger = l;
    LK_TRY(path_of(o, LINES, path));
    if (resumed) {
        bytes = go_on_from(o, path, LK_MISSING_METRICS, resumed->lines_bytes);
        LK_TRY(curves_go_on(o, path, bytes));
    }
    LK_TRY(lk__lines_open_at(path, bytes, &o->lines));
    LK_TRY(path_of(o, EVENTS, path));
    if (resumed)
        bytes = go_on_from(o, path, LK_MISSING_EVENTS, resumed->events_bytes);
    LK_TRY(lk__events_open_at(path, bytes, &o->events));
    if (resumed)
        lk__best_mend(&o->best, resumed, lk_trainer_position(trainer_of(o)).step);
    if (l->missing && !l->reason[0])
        snprintf(l->reason, sizeof l->reason, "an earlier part of the run could not write it");
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

void lk__output_sizes(const lk__output *o, int64_t *lines, int64_t *events)
{
    *lines = o->lines ? lk__lines_bytes(o->lines) : o->lines_bytes;
    *events = o->events ? lk__events_bytes(o->events) : o->events_bytes;
}

lk_status lk__output_sync(lk__output *o)
{
    lk_status first = LK_OK;
    if (!o->lines) /* the run is over */
        return LK_OK;
    file_ended(o, LK_MISSING_METRICS, LINES, lk__lines_sync(o->lines), &first);
    file_ended(o, LK_MISSING_EVENTS, EVENTS, lk__events_sync(o->events), &first);
    lk__best_again(&o->best, &first);
    return files_status(o, first);
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
    lk__weights_free(o->best.kept);
    lk_free(o->ledger.warnings.text);
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
    lk_status first = LK_OK;
    file_ended(o, LK_MISSING_METRICS, LINES, lk_lines_add(o->lines, fact, report->norm < 0 ? 3 : 4),
               &first);
    file_ended(o, LK_MISSING_EVENTS, EVENTS, lk_events_add(o->events, report->step + 1, scalar, 2),
               &first);
    return files_status(o, first);
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
        if (!curve_is_drawn(o, i))
            continue;
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
    lk_status first = LK_OK;
    file_ended(o, LK_MISSING_METRICS, LINES, lk_lines_add(o->lines, r.fact, r.n_facts), &first);
    file_ended(o, LK_MISSING_EVENTS, EVENTS,
               lk_events_add(o->events, report->step, r.scalar, r.n_scalars), &first);
    if (report->best)
        lk__best_now(&o->best, report->step, &first);
    else
        lk__best_again(&o->best, &first);
    return files_status(o, first);
}

/* ---- the end ---- */

/* The charts: the loss and each metric, training and evaluation in one. */
static int64_t charts_make(const lk__output *o, lk_chart *chart, lk_curve (*curve)[2])
{
    int64_t n = 0;
    const char *name;
    for (int i = 0; (name = curve_name(o, i)); i++) {
        if (!curve_is_drawn(o, i))
            continue;
        curve[i][0] = (lk_curve){"training", o->train[i].x, o->train[i].y, o->train[i].n};
        curve[i][1] = (lk_curve){o->set, o->test[i].x, o->test[i].y, o->test[i].n};
        chart[n++] = (lk_chart){name, "epoch", curve[i], o->test[i].n > 0 ? 2 : 1};
    }
    return n;
}

/* The last value of a curve, of the evaluation or, where there is none, of training. */
static bool curve_last(const lk__output *o, int i, double *out)
{
    const points *p = o->test[i].n > 0 ? &o->test[i] : &o->train[i];
    if (p->n > 0)
        *out = p->y[p->n - 1];
    return p->n > 0;
}

static lk_status page_write(const lk__output *o, const lk_run_end *end, const char *ended,
                            const char *experiment)
{
    char path[LK_PATH_SIZE], hash[LK_HASH_TEXT];
    lk_chart chart[1 + LK_MAX_METRICS];
    lk_curve curve[1 + LK_MAX_METRICS][2];
    lk_fact headline[2 + LK_MAX_METRICS], fact[9];
    const lk_experiment *e = lk_job_experiment(o->job);
    const lk_score *score = end->last.evaluated ? &end->last.test : &end->last.train;
    bool scored = score->samples > 0;
    lk_position at = lk_trainer_position(trainer_of(o)); /* of the whole run, resumed or not */
    const char *name;
    int64_t n = 0, facts = 0;
    for (int i = 0; (name = curve_name(o, i)); i++) {
        double value = scored ? curve_value(score, i) : 0;
        if (curve_is_drawn(o, i) && (scored || curve_last(o, i, &value)))
            headline[n++] = lk_fact_real(name, value);
    }
    if (ended)
        fact[facts++] = lk_fact_text("ended", ended);
    if (end->done) /* in the middle of a step there is none */
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
    LK_TRY(path_of(o, REPORT, path));
    LK_TRY(lk_report_write(path, &report));
    return LK_OK;
}

static lk_status report_write(const lk__output *o, const lk_run_end *end, const char *ended)
{
    char *experiment = file_text(lk_job_experiment(o->job)->path);
    lk_status st = page_write(o, end, ended, experiment);
    lk_free(experiment);
    LK_TRY(st);
    return LK_OK;
}

static void files_close(lk__output *o, lk_status *first)
{
    lk__output_sizes(o, &o->lines_bytes, &o->events_bytes);
    file_ended(o, LK_MISSING_METRICS, LINES, lk_lines_close(o->lines), first);
    o->lines = NULL;
    file_ended(o, LK_MISSING_EVENTS, EVENTS, lk_events_close(o->events), first);
    o->events = NULL;
    lk__best_again(&o->best, first);
}

/* Whether a file of a run that was complete before has to be written again. */
static bool is_lost(const lk__output *o, lk_missing bit, const char *file)
{
    char path[LK_PATH_SIZE];
    if (path_of(o, file, path) == LK_OK)
        return (o->ledger.missing & bit) || !lk__path_exists(path);
    lk_error_clear();
    return true;
}

lk_status lk__output_end(lk__output *o, const lk_run_end *end, bool before)
{
    lk_status first = LK_OK;
    char ended[64] = "";
    if (end->stopped)
        snprintf(ended, sizeof ended, "stopped on request after step %lld",
                 (long long)lk_trainer_position(trainer_of(o)).step);
    if (!end->stopped && (!before || is_lost(o, LK_MISSING_WEIGHTS, WEIGHTS)))
        file_ended(o, LK_MISSING_WEIGHTS, WEIGHTS, weights_save(o, WEIGHTS), &first);
    if (!before || is_lost(o, LK_MISSING_REPORT, REPORT))
        file_ended(o, LK_MISSING_REPORT, REPORT, report_write(o, end, ended[0] ? ended : NULL),
                   &first);
    files_close(o, &first);
    if (!end->stopped)
        (void)lk__output_stop(o); /* too late: the run is complete */
    return files_status(o, first);
}

void lk__output_failed(lk__output *o, const lk_run_end *end)
{
    char ended[LK__REASON + 64];
    lk__failure failure;
    lk_status first = LK_OK;
    lk__failure_get(&failure);
    snprintf(ended, sizeof ended, "failed after step %lld: %s",
             (long long)lk_trainer_position(trainer_of(o)).step, failure.message);
    if (o->lines) {
        file_ended(o, LK_MISSING_REPORT, REPORT, report_write(o, end, ended), &first);
        files_close(o, &first);
    }
    lk__failure_set(&failure);
}
