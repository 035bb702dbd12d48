/* What a run keeps on disk: the files of rank 0 and the checkpoints of all, and what is missing of them
 * at the end.  run.c calls it, on all ranks.
 */
#include "io/disk.h"
#include "train/run/run.h"

#include <stdio.h>
#include <string.h>

void lk__run_message(const lk__run *r, const char *text)
{
    bool first = lk__trainer_rank(r->trainer) == 0;
    if (first && text[0] && r->callbacks && r->callbacks->message)
        r->callbacks->message(r->callbacks->arg, text);
}

/* Output errors: warn (unless `what` is NULL) and go on, or stop, as checkpoint.on_error says. */
static lk_status failed(const lk__run *r, const char *what, lk_status st)
{
    char text[640];
    if (st == LK_OK || lk__is_end(st) || r->options->checkpoint.on_error == LK_ON_ERROR_STOP)
        return st;
    if (what) {
        snprintf(text, sizeof text, "warning: %s: %s", what, lk_error_message());
        lk__run_message(r, text);
    }
    lk_error_clear();
    return LK_OK;
}

static void disk_message(void *arg, const char *text)
{
    lk__run_message(arg, text);
}

static void warnings_report(const lk__run *r)
{
    if (!r->output)
        return;
    lk__out *warnings = &lk__output_ledger(r->output)->warnings;
    lk__run_message(r, warnings->n > 0 ? warnings->text : "");
    lk__out_clear(warnings);
}

/* What rank 0 is to write. */
enum what { STEP, REPORT, END, SYNC };

typedef struct to_write {
    enum what what;
    lk__output *output;
    const void *report; /* of the step, the epoch or the run */
    bool before;
} to_write;

static lk_status files_do(void *arg)
{
    const to_write *w = arg;
    switch (w->what) {
    case STEP: return lk__output_step(w->output, w->report);
    case REPORT: return lk__output_report(w->output, w->report);
    case END: return lk__output_end(w->output, w->report, w->before);
    case SYNC: return lk__output_sync(w->output);
    }
    return LK_OK;
}

/* Let rank 0 write to its files, while the others wait.  Of what it could not write there is a warning,
 * and the run goes on or stops, as the experiment says. */
static lk_status files_write(lk__run *r, enum what what, const void *report)
{
    lk__disk disk = {.comm = r->comm, .message = disk_message, .arg = r};
    to_write w = {.what = what, .output = r->output, .report = report};
    w.before = r->result.resumed >= 0 && r->result.steps == 0 && !r->result.stopped;
    if (!r->options->output)
        return LK_OK;
    lk_status st = lk__disk_do(&disk, r->output ? files_do : NULL, &w);
    warnings_report(r);
    return LK_TRACE(failed(r, NULL, lk_agree(r->comm, st)));
}

lk_status lk__run_write_step(lk__run *r, const lk_step_report *report)
{
    return LK_TRACE(files_write(r, STEP, report));
}

/* The weights of a chain, or of a model of which ranks hold parts, which they write together.  What cannot be written is as any other file of
 * the run, but for that the best weights are not kept to be tried again. */
static lk_status weights_write(lk__run *r, lk_missing file, int64_t step)
{
    const lk_trainer *t = r->trainer;
    char path[LK_PATH_SIZE], text[32];
    lk_metadata metadata = {"step", text};
    snprintf(text, sizeof text, "%lld", (long long)step);
    LK_TRY(lk__path_join(r->options->output,
                         file == LK_MISSING_BEST ? "best.safetensors" : "weights.safetensors", path,
                         sizeof path));
    lk_status st = lk_safetensors_write_boxes(r->comm, path, t->held->tensor,
                                              t->n_params + t->n_state, &metadata,
                                              file == LK_MISSING_BEST);
    if (r->output && !lk__is_end(st))
        lk__output_record_weights(r->output, file, st);
    return LK_TRACE(failed(r, NULL, st));
}

lk_status lk__run_write_report(lk__run *r, const lk_epoch_report *report)
{
    if (lk__trainer_has_parts(r->trainer) && r->options->output && report->best)
        LK_TRY(weights_write(r, LK_MISSING_BEST, report->step));
    return LK_TRACE(files_write(r, REPORT, report));
}

/* Weights of which ranks have parts, at the end of the run, unless they are there. */
static lk_status last_weights_write(lk__run *r)
{
    int32_t needed = 0;
    bool before = r->result.resumed >= 0 && r->result.steps == 0 && !r->result.stopped;
    if (!lk__trainer_has_parts(r->trainer) || !r->options->output || r->result.stopped)
        return LK_OK;
    if (r->output)
        needed = lk__output_needs_weights(r->output, before);
    if (r->comm)
        LK_TRY(lk_bcast(r->comm, &needed, 1, LK_I32, 0, "weights"));
    if (needed)
        LK_TRY(weights_write(r, LK_MISSING_WEIGHTS, r->trainer->step));
    return LK_OK;
}

/* ---- checkpoints ---- */

/* A save has ended.  If it failed: go on with a warning, or stop, as the experiment says. */
static lk_status save_ended(lk__run *r, int64_t step, lk_status st)
{
    char what[64];
    snprintf(what, sizeof what, "no checkpoint of step %lld", (long long)step);
    snprintf(r->no_checkpoint, sizeof r->no_checkpoint, "%s",
             st == LK_OK ? "" : lk_error_message());
    st = failed(r, what, st);
    lk__run_message(r, lk__saver_messages(r->saver));
    return LK_TRACE(st);
}

/* Wait for the save that is under way, if one is. */
lk_status lk__run_save_finish(lk__run *r)
{
    int64_t step;
    lk_status st = lk__saver_finish(r->saver, &step);
    return step >= 0 ? LK_TRACE(save_ended(r, step, st)) : LK_OK;
}

/* How long the files are that grow, and which are missing, as all ranks know it. */
static lk_status files_share(lk__run *r)
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

lk_status lk__run_save(lk__run *r, bool wait)
{
    uint64_t hash;
    LK_TRY(lk__run_save_finish(r));
    LK_TRY(lk_trainer_hash(r->trainer, &hash)); /* ranks that differ end the run */
    LK_TRY(files_write(r, SYNC, NULL));
    LK_TRY(files_share(r));
    lk_status st = lk__saver_begin(r->saver, hash);
    if (st != LK_OK)
        LK_TRY(save_ended(r, lk_trainer_position(r->trainer).step, st));
    if (wait)
        LK_TRY(lk__run_save_finish(r));
    return LK_OK;
}

/* ---- the beginning ---- */

static lk_status folder_make(void *arg)
{
    lk__run *r = arg;
    return lk__storage_folder(r->options->output);
}

static lk_status output_make(void *arg)
{
    lk__run *r = arg;
    return lk__output_new(r->job, r->options->output, r->result.resumed >= 0 ? &r->progress : NULL,
                          &r->output);
}

/* Do what must work before the run begins, on rank 0 if there is an output folder. */
static lk_status prepare(lk__run *r, lk__work_fn *fn)
{
    lk__disk disk = {.comm = r->comm, .message = disk_message, .arg = r};
    bool writes = r->options->output && lk__trainer_rank(r->trainer) == 0;
    return LK_TRACE(lk_agree(r->comm, lk__disk_do(&disk, writes ? fn : NULL, r)));
}

lk_status lk__run_folder(lk__run *r)
{
    return LK_TRACE(prepare(r, folder_make));
}

lk_status lk__run_output(lk__run *r)
{
    LK_TRY(prepare(r, output_make));
    warnings_report(r);
    return LK_OK;
}

/* ---- the end ---- */

/* What is not on disk, on rank 0, with the reasons. */
static lk_status missing_raise(const lk__run *r)
{
    static const char *const name[] = {NULL,          "weights.safetensors", "best.safetensors",
                                       "report.html", "metrics.jsonl",       "the event file"};
    char list[320] = "";
    const char *reason = r->no_checkpoint, *files = "";
    if (r->result.missing & LK_MISSING_CHECKPOINT)
        snprintf(list, sizeof list, "the checkpoint of step %lld",
                 (long long)lk_trainer_position(r->trainer).step);
    for (int i = 1; i < (int)(sizeof name / sizeof name[0]); i++) {
        size_t n = strlen(list);
        bool older = r->output && lk__ledger_is_older(lk__output_ledger(r->output),
                                                      (lk_missing)(1U << i), name[i]);
        if (r->result.missing >> i & 1)
            snprintf(list + n, sizeof list - n, "%s%s%s", n ? ", " : "", name[i],
                     older ? " (an older one is there)" : "");
    }
    if (r->output)
        files = lk__output_ledger(r->output)->reason;
    return LK_RAISE(LK_EIO, "not all is on disk: %s %s missing (%.300s); mend that and resume",
                    list, strchr(list, ',') ? "are" : "is", reason[0] ? reason : files);
}

/* A run that did all its steps is done when it is on disk; one that was stopped, when its checkpoint
 * is.  Without a folder nothing is to be. */
static lk_status missing_check(lk__run *r)
{
    lk_status st = LK_OK;
    bool first = lk__trainer_rank(r->trainer) == 0;
    unsigned fatal = r->result.stopped ? LK_MISSING_CHECKPOINT : ~0U;
    if (first && (r->result.missing & fatal))
        st = missing_raise(r);
    return LK_TRACE(lk_agree(r->comm, st));
}

/* Weights are those of a run that is complete: a stop leaves what was there. */
static void stop_report(const lk__run *r)
{
    if (r->output && r->result.stopped && r->result.steps > 0 &&
        lk__ledger_is_older(lk__output_ledger(r->output), LK_MISSING_WEIGHTS,
                            "weights.safetensors"))
        lk__run_message(r, "warning: weights.safetensors is that of an earlier end of the run: one "
                           "that is stopped writes none");
}

/* The files, then the last checkpoint: one that says that the run is complete. */
lk_status lk__run_finish(lk__run *r)
{
    lk_position at = lk_trainer_position(r->trainer);
    r->result.best = r->progress.best;
    r->result.best_epoch = r->progress.best_epoch;
    LK_TRY(lk_trainer_hash(r->trainer, &r->result.state));
    r->result.done = true;
    LK_TRY(last_weights_write(r));
    stop_report(r);
    LK_TRY(files_write(r, END, &r->result));
    LK_TRY(files_share(r));
    bool wanted = r->saver && (r->options->checkpoint.every.n > 0 || r->result.stopped);
    if (r->saver)
        LK_TRY(lk__run_save_finish(r));
    if (wanted && lk__saver_saved(r->saver) != at.step)
        LK_TRY(lk__run_save(r, true));
    r->result.saved = r->saver && lk__saver_saved(r->saver) == at.step;
    r->result.missing = (unsigned)r->progress.missing;
    if (wanted && !r->result.saved)
        r->result.missing |= LK_MISSING_CHECKPOINT;
    return LK_TRACE(missing_check(r));
}

/* A run that fails still publishes what it has written, if ranks can talk to each other. */
void lk__run_save_last(lk__run *r, lk_status st)
{
    if (st == LK_OK || !r->saver || lk__is_end(st))
        return;
    int64_t step;
    lk__failure failure;
    lk__failure_get(&failure);
    if (lk__saver_finish(r->saver, &step) != LK_OK)
        lk__run_message(r, "warning: the last checkpoint could not be written");
    lk__failure_set(&failure); /* that which the caller is to see */
}
