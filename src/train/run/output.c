/* What a run writes to its folder: metrics.jsonl, an event file, best.safetensors, and at the end
 * weights.safetensors and report.html.  The weights of a chain are written by all ranks (files.c), and
 * noted here. */
#include "train/run/output.h"

#include "base/failure.h"
#include "io/jsonl.h"
#include "io/tfevents.h"
#include "train/run/best.h"
#include "train/run/curves.h"
#include "train/run/page.h"
#include "train/trainer.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of several losses that count, so many are written one by one. */
enum { MOST_LOSSES = 16, MAX_KVS = 18 + 2 * (1 + LK_MAX_METRICS + MOST_LOSSES), NAME = 96 };

#define LINES "metrics.jsonl"
#define EVENTS "events.out.tfevents.lockstep"
#define BEST "best.safetensors"
#define WEIGHTS "weights.safetensors"
#define REPORT "report.html"

struct lk__output {
    lk_job *job;
    char folder[LK_PATH_SIZE];
    lk_jsonl *lines; /* NULL when all is written, as the events are */
    lk_tfevents *events;
    int64_t lines_bytes, events_bytes; /* when they were closed */
    lk__curves curves;
    char *confusion; /* the last one, as JSON */
    lk__best best;
    lk__ledger ledger;
};

static const lk_trainer *trainer_of(const lk__output *o)
{
    return lk_job_trainer(o->job);
}

/* Whether all weights are here: those of which ranks have parts they write together, files.c. */
static bool has_weights(const lk__output *o)
{
    return !lk__trainer_has_parts(trainer_of(o));
}

static lk_status path_of(const lk__output *o, const char *file, char path[LK_PATH_SIZE])
{
    return LK_TRACE(lk__path_join(o->folder, file, path, LK_PATH_SIZE));
}

/* ---- what could not be written ---- */

lk__ledger *lk__output_ledger(lk__output *o)
{
    return &o->ledger;
}

/* ---- the files ---- */

/* How much of a file that grows was there when the checkpoint was saved. */
static int64_t resume_from(lk__output *o, const char *path, lk_missing file, int64_t bytes)
{
    struct stat info;
    int64_t there = stat(path, &info) == 0 ? info.st_size : 0;
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

static lk_status output_open(lk__output *o, const lk__progress *resumed)
{
    char path[LK_PATH_SIZE];
    int64_t bytes = 0;
    lk__ledger *l = &o->ledger;
    l->folder = o->folder;
    l->missing = resumed ? (unsigned)resumed->missing & ~(unsigned)LK_MISSING_CHECKPOINT : 0;
    LK_TRY(path_of(o, BEST, o->best.path));
    o->best.job = o->job;
    o->best.ledger = l;
    LK_TRY(path_of(o, LINES, path));
    if (resumed) {
        bytes = resume_from(o, path, LK_MISSING_METRICS, resumed->lines_bytes);
        LK_TRY(lk__curves_resume(&o->curves, path, bytes));
    }
    LK_TRY(lk__jsonl_open_at(path, bytes, &o->lines));
    LK_TRY(path_of(o, EVENTS, path));
    if (resumed)
        bytes = resume_from(o, path, LK_MISSING_EVENTS, resumed->events_bytes);
    LK_TRY(lk__tfevents_open_at(path, bytes, &o->events));
    if (resumed && has_weights(o))
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
    o->curves.job = job;
    (void)lk_job_evaluation(job, &o->curves.set);
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
    *lines = o->lines ? lk__jsonl_bytes(o->lines) : o->lines_bytes;
    *events = o->events ? lk__tfevents_bytes(o->events) : o->events_bytes;
}

lk_status lk__output_sync(lk__output *o)
{
    lk_status first = LK_OK;
    if (!o->lines) /* the run is over */
        return LK_OK;
    lk__ledger_record(&o->ledger, LK_MISSING_METRICS, LINES, lk__jsonl_sync(o->lines), &first);
    lk__ledger_record(&o->ledger, LK_MISSING_EVENTS, EVENTS, lk__tfevents_sync(o->events), &first);
    lk__best_again(&o->best, &first);
    return lk__ledger_status(&o->ledger, first);
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
    if (lk_jsonl_close(o->lines) != LK_OK || lk_tfevents_close(o->events) != LK_OK)
        lk_error_clear(); /* only after another failure: lk__output_end() closes and checks */
    lk__weights_free(o->best.kept);
    lk_free(o->ledger.warnings.text);
    lk__curves_free(&o->curves);
    lk_free(o->confusion);
    lk_free(o);
}

void lk__output_record_weights(lk__output *o, lk_missing file, lk_status st)
{
    lk_status first = LK_OK;
    lk__ledger_record(&o->ledger, file, file == LK_MISSING_BEST ? BEST : WEIGHTS, st, &first);
}

/* ---- while training ---- */

/* What a report becomes: key-value pairs for the lines, scalars for the events, with their names. */
typedef struct record {
    lk_kv kv[MAX_KVS];
    lk_scalar scalar[MAX_KVS];
    char name[MAX_KVS][NAME];
    int64_t n_kvs, n_scalars;
} record;

/* Where several losses count, each of them: "loss/code" in the lines of steps, "train/loss/code" in those of
 * sets. */
static void record_losses(record *r, const lk__output *o, const char *set, const double *losses)
{
    const char *name;
    int several = lk_trainer_loss(trainer_of(o), 1) ? MOST_LOSSES : 0;
    for (int i = 0; i < several && (name = lk_trainer_loss(trainer_of(o), i)); i++) {
        char *key = r->name[r->n_scalars];
        snprintf(key, NAME, "%.32s/loss/%.48s", set, name);
        r->scalar[r->n_scalars++] = (lk_scalar){key, losses[i]};
        r->kv[r->n_kvs++] = lk_kv_real(strcmp(set, "step") == 0 ? key + 5 : key, losses[i]);
    }
}

lk_status lk__output_step(lk__output *o, const lk_step_report *report)
{
    record r = {.scalar = {{"step/loss", report->loss}, {"step/rate", report->rate}},
                .n_scalars = 2};
    if (lk_job_phase(o->job))
        r.kv[r.n_kvs++] = lk_kv_text("phase", lk_job_phase(o->job)->name);
    r.kv[r.n_kvs++] = lk_kv_int("step", report->step + 1);
    r.kv[r.n_kvs++] = lk_kv_real("loss", report->loss);
    r.kv[r.n_kvs++] = lk_kv_real("rate", report->rate);
    if (report->norm >= 0)
        r.kv[r.n_kvs++] = lk_kv_real("norm", report->norm);
    lk_status first = LK_OK;
    record_losses(&r, o, "step", report->losses);
    lk__ledger_record(&o->ledger, LK_MISSING_METRICS, LINES, lk_jsonl_add(o->lines, r.kv, r.n_kvs),
                      &first);
    lk__ledger_record(&o->ledger, LK_MISSING_EVENTS, EVENTS,
                      lk_tfevents_add(o->events, report->step + 1, r.scalar, r.n_scalars), &first);
    return lk__ledger_status(&o->ledger, first);
}

/* Loss and metrics of one set. */
static lk_status record_eval(record *r, lk__output *o, const char *set, const lk_eval *eval,
                             double epoch, lk__points *points)
{
    const char *name;
    for (int i = 0; (name = lk__curve_name(&o->curves, i)); i++) {
        if (!lk__curve_is_drawn(&o->curves, i))
            continue;
        char *key = r->name[r->n_scalars];
        snprintf(key, NAME, "%.32s/%.48s", set, name);
        r->scalar[r->n_scalars++] = (lk_scalar){key, lk__curve_value(eval, i)};
        r->kv[r->n_kvs++] = lk_kv_real(key, lk__curve_value(eval, i));
        LK_TRY(lk__points_add(&points[i], epoch, lk__curve_value(eval, i)));
    }
    record_losses(r, o, set, eval->losses);
    return LK_OK;
}

/* Keep the table of confusion for the report. */
static lk_status confusion_keep(lk__output *o, const lk_eval *eval)
{
    const char *name;
    for (int i = 0; (name = lk__curve_name(&o->curves, i + 1)); i++)
        if (strcmp(name, "confusion") == 0 && eval->json[i]) {
            size_t n = strlen(eval->json[i]) + 1;
            lk_free(o->confusion);
            o->confusion = NULL;
            LK_TRY(lk_alloc(&o->confusion, (int64_t)n, 1));
            memcpy(o->confusion, eval->json[i], n);
        }
    return LK_OK;
}

/* Who was slow, and how much of the epoch went where on average. */
static void record_ranks(record *r, const lk_epoch_report *report)
{
    double compute = 0, wait = 0, exchange = 0;
    for (int k = 0; k < report->ranks; k++) {
        compute += lk_step_compute_seconds(&report->rank_time[k]) / report->ranks;
        wait += report->rank_time[k].wait / report->ranks;
        exchange += report->rank_time[k].exchange / report->ranks;
    }
    r->kv[r->n_kvs++] = lk_kv_int("ranks", report->ranks);
    r->kv[r->n_kvs++] = lk_kv_real("compute_s", compute);
    r->kv[r->n_kvs++] = lk_kv_real("exchange_s", exchange);
    r->kv[r->n_kvs++] = lk_kv_real("wait_s", wait);
    r->kv[r->n_kvs++] = lk_kv_int("slowest_rank", report->slowest);
    r->kv[r->n_kvs++] = lk_kv_real("slowest_compute_s",
                                   lk_step_compute_seconds(&report->rank_time[report->slowest]));
}

/* What of the training set is damaged and left out, if anything is. */
static void record_damage(record *r, const lk_loader *train)
{
    const lk_dataset_info *info = lk_dataset_info_of(lk_loader_dataset(train));
    if (info->skipped == 0 && info->gaps == 0)
        return;
    r->kv[r->n_kvs++] = lk_kv_int("skipped", info->skipped);
    r->kv[r->n_kvs++] = lk_kv_int("gaps", info->gaps);
}

lk_status lk__output_report(lk__output *o, const lk_epoch_report *report)
{
    record r = {.n_kvs = 0};
    char hash[LK_HASH_TEXT];
    lk_short_string marks = lk_parallel_marks(&lk_job_experiment(o->job)->parallel);
    lk_position at = lk_trainer_position(trainer_of(o));
    double epoch = (double)at.step / (double)at.batches;
    if (lk_job_phase(o->job))
        r.kv[r.n_kvs++] = lk_kv_text("phase", lk_job_phase(o->job)->name);
    r.kv[r.n_kvs++] = lk_kv_int("epoch", report->epoch);
    r.kv[r.n_kvs++] = lk_kv_int("step", report->step);
    if (report->complete)
        LK_TRY(record_eval(&r, o, "train", &report->train, epoch, o->curves.train));
    if (report->evaluated) {
        LK_TRY(record_eval(&r, o, o->curves.set, &report->test, epoch, o->curves.test));
        LK_TRY(confusion_keep(o, &report->test));
    }
    r.kv[r.n_kvs++] = lk_kv_real("rate", report->rate);
    r.kv[r.n_kvs++] = lk_kv_real("seconds", report->seconds);
    record_damage(&r, lk_job_loader(o->job, LK_TRAIN));
    if (report->slowest >= 0)
        record_ranks(&r, report);
    r.kv[r.n_kvs++] = lk_kv_text("state", lk_hash_text(report->state, hash));
    if (marks.s[0])
        r.kv[r.n_kvs++] = lk_kv_text("marks", marks.s);
    lk_status first = LK_OK;
    lk__ledger_record(&o->ledger, LK_MISSING_METRICS, LINES, lk_jsonl_add(o->lines, r.kv, r.n_kvs),
                      &first);
    lk__ledger_record(&o->ledger, LK_MISSING_EVENTS, EVENTS,
                      lk_tfevents_add(o->events, report->step, r.scalar, r.n_scalars), &first);
    if (report->best && has_weights(o))
        lk__best_now(&o->best, report->step, &first);
    else
        lk__best_again(&o->best, &first);
    return lk__ledger_status(&o->ledger, first);
}

/* ---- the end ---- */

static lk_status report_write(const lk__output *o, const lk_run_result *end, const char *ended)
{
    char path[LK_PATH_SIZE];
    const lk__page page = {
        .job = o->job, .curves = &o->curves, .confusion = o->confusion, .end = end, .ended = ended};
    LK_TRY(path_of(o, REPORT, path));
    return LK_TRACE(lk__page_write(&page, path));
}

static void files_close(lk__output *o, lk_status *first)
{
    lk__output_sizes(o, &o->lines_bytes, &o->events_bytes);
    lk__ledger_record(&o->ledger, LK_MISSING_METRICS, LINES, lk_jsonl_close(o->lines), first);
    o->lines = NULL;
    lk__ledger_record(&o->ledger, LK_MISSING_EVENTS, EVENTS, lk_tfevents_close(o->events), first);
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

bool lk__output_needs_weights(const lk__output *o, bool before)
{
    return !before || is_lost(o, LK_MISSING_WEIGHTS, WEIGHTS);
}

lk_status lk__output_end(lk__output *o, const lk_run_result *end, bool before)
{
    lk_status first = LK_OK;
    char ended[64] = "", path[LK_PATH_SIZE];
    if (end->stopped)
        snprintf(ended, sizeof ended, "stopped on request after step %lld",
                 (long long)lk_trainer_position(trainer_of(o)).step);
    if (!end->stopped && has_weights(o) && lk__output_needs_weights(o, before)) {
        lk_status st = path_of(o, WEIGHTS, path);
        if (st == LK_OK)
            st = lk_weights_save(NULL, lk_trainer_model(trainer_of(o)), path, NULL, 0);
        lk__ledger_record(&o->ledger, LK_MISSING_WEIGHTS, WEIGHTS, st, &first);
    }
    if (!before || is_lost(o, LK_MISSING_REPORT, REPORT))
        lk__ledger_record(&o->ledger, LK_MISSING_REPORT, REPORT,
                          report_write(o, end, ended[0] ? ended : NULL), &first);
    files_close(o, &first);
    if (!end->stopped)
        (void)lk__output_stop(o); /* too late: the run is complete */
    return lk__ledger_status(&o->ledger, first);
}

void lk__output_failed(lk__output *o, const lk_run_result *end)
{
    char ended[LK__REASON + 64];
    lk__failure failure;
    lk_status first = LK_OK;
    lk__failure_get(&failure);
    snprintf(ended, sizeof ended, "failed after step %lld: %s",
             (long long)lk_trainer_position(trainer_of(o)).step, failure.message);
    if (o->lines) {
        lk__ledger_record(&o->ledger, LK_MISSING_REPORT, REPORT, report_write(o, end, ended),
                          &first);
        files_close(o, &first);
    }
    lk__failure_set(&failure);
}
