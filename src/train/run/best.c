/* lk__best: best.safetensors, written after each best evaluation, with metadata that says of which
 * step.  See best.h. */
#include "train/run/best.h"

#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>

static const char name[] = "best.safetensors";

static lk_model *model_of(const lk__best *b)
{
    return lk_trainer_model(lk_job_trainer(b->job));
}

static lk_status file_write(const lk__best *b, const lk__weights *kept, int64_t step)
{
    char text[32];
    lk_metadata metadata = {"step", text};
    snprintf(text, sizeof text, "%lld", (long long)step);
    if (kept)
        LK_TRY(lk__weights_write(kept, b->path, &metadata, 1));
    else
        LK_TRY(lk_weights_save(NULL, model_of(b), b->path, &metadata, 1));
    return LK_OK;
}

void lk__best_now(lk__best *b, int64_t step, lk_status *first)
{
    lk__weights_free(b->kept);
    b->kept = NULL;
    b->step = step;
    lk_status st = file_write(b, NULL, step);
    lk__ledger_record(b->ledger, LK_MISSING_BEST, name, st, first);
    if (st != LK_OK && lk__weights_copy(model_of(b), &b->kept) != LK_OK)
        lk_error_clear(); /* there is no room for them either */
}

void lk__best_again(lk__best *b, lk_status *first)
{
    if (!b->kept)
        return;
    lk_status st = file_write(b, b->kept, b->step);
    lk__ledger_record(b->ledger, LK_MISSING_BEST, name, st, first);
    if (st != LK_OK)
        return;
    lk__weights_free(b->kept);
    b->kept = NULL;
}

/* The step whose weights are in the file; -1: unknown. */
static int64_t step_on_disk(const lk__best *b)
{
    lk_safetensors *file = NULL;
    int64_t step = -1;
    if (lk__path_exists(b->path) && lk_safetensors_open(b->path, &file) == LK_OK) {
        const char *metadata = lk_safetensors_metadata(file, "step");
        step = metadata ? strtoll(metadata, NULL, 10) : -1;
        lk_safetensors_close(file);
    }
    lk_error_clear();
    return step;
}

/* The weights of the checkpoint of a step, kept to be written. */
static lk_status keep_from_checkpoint(lk__best *b, int64_t step)
{
    char folder[LK_PATH_SIZE], path[LK_PATH_SIZE], file[64];
    snprintf(file, sizeof file, "step-%012lld", (long long)step);
    LK_TRY(lk__saver_folder(&lk_job_experiment(b->job)->train, folder));
    LK_TRY(lk__path_join(folder, file, path, sizeof path));
    return LK_TRACE(lk__weights_of_checkpoint(model_of(b), path, &b->kept));
}

void lk__best_mend(lk__best *b, const lk__progress *p, int64_t at)
{
    lk_status first = LK_OK;
    int64_t there = step_on_disk(b);
    b->step = p->best_step;
    if (p->best_step < 0 || there == p->best_step || there > at) { /* later ones come again */
        lk__ledger_clear(b->ledger, LK_MISSING_BEST);
    } else if (p->best_step == at) {
        lk__best_now(b, at, &first);
    } else if (keep_from_checkpoint(b, p->best_step) == LK_OK) {
        lk__best_again(b, &first);
    } else {
        lk_error_clear();
        lk__out_format(&b->ledger->warnings,
                       "warning: %s is not that of step %lld, the best so far, and the checkpoint "
                       "of that step is gone\n",
                       name, (long long)p->best_step);
    }
}
