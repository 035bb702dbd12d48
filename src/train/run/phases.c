/* A run goes through the phases of its experiment; a training without phases is one.  run.c calls this on
 * all ranks: where the phase and the run end, and from one phase to the next. */
#include "train/run/run.h"

#include <stdio.h>

/* Step `end`, or if that is before it, the one behind which `train.steps` end. */
static int64_t limited(const lk__run *r, int64_t end)
{
    return r->options->steps > 0 && r->options->steps < end ? r->options->steps : end;
}

int64_t lk__run_phase_end(const lk__run *r)
{
    const lk_trainer_spec *spec = &r->trainer->spec;
    return limited(r, spec->first + spec->epochs * lk_loader_batches(spec->train));
}

int64_t lk__run_last_step(const lk__run *r)
{
    const lk_trainer_spec *spec = &r->trainer->spec;
    const lk_experiment *e = r->job->experiment;
    int64_t epochs = spec->epochs;
    for (int64_t i = r->job->phase + 1; i < e->n_phases; i++)
        epochs += e->phase[i].epochs;
    return limited(r, spec->first + epochs * lk_loader_batches(spec->train));
}

/* Let the run go on with the job's trainer, which is that of a phase. */
static lk_status phase_follow(lk__run *r)
{
    r->trainer = r->job->trainer;
    r->comm = lk__trainer_comm(r->trainer);
    if (r->saver)
        LK_TRY(lk__saver_follow(r->saver));
    return LK_TRACE(lk__run_monitor(r));
}

lk_status lk__run_find_phase(lk__run *r)
{
    int64_t phase, first;
    if (r->job->experiment->n_phases == 0)
        return LK_OK;
    LK_TRY(lk__saver_find_phase(r->saver, &phase, &first));
    if (phase == r->job->phase && first == r->trainer->spec.first)
        return LK_OK;
    LK_TRY(lk__job_enter_phase(r->job, phase, first));
    return LK_TRACE(phase_follow(r));
}

lk_status lk__run_next_phase(lk__run *r)
{
    char text[160];
    int64_t step = r->trainer->step, end = lk__run_phase_end(r);
    if (step < end)
        snprintf(text, sizeof text,
                 "phase %s ends early with step %lld: nothing was better than epoch %lld",
                 lk_job_phase(r->job)->name, (long long)step, (long long)r->progress.best_epoch);
    if (step < end)
        lk__run_message(r, text);
    if (r->saver)
        LK_TRY(lk__run_save_finish(r));
    r->result.early = false;
    r->progress.without = 0;
    r->progress.best_epoch = 0;
    LK_TRY(lk__job_enter_phase(r->job, r->job->phase + 1, step));
    return LK_TRACE(phase_follow(r));
}
