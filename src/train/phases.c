/* The phases of a job: each has a trainer of its own, one after the other, on the same model.
 *
 * lk_job_new() enters each once, from the last to the first, so that what is wrong in one is reported before the
 * first step; lk_job_run() the next ones or that of a checkpoint; programs that look at another phase
 * call lk_job_set_phase(); all ranks together, on the thread that has the communicator.
 */
#include "base/failure.h"
#include "base/fpenv.h"
#include "coll/agree.h"
#include "train/job.h"

#include <string.h>

/* How the job's phase is trained; without phases, as the experiment says. */
static lk_trainer_options options_of(const lk_job *job)
{
    const lk_experiment *e = job->experiment;
    const lk_phase *phase = lk_job_phase(job);
    lk_trainer_options options = {
        .loss = e->loss, .metrics = e->metrics, .optimizer = e->optimizer};
    if (phase) {
        options.losses = phase->losses;
        options.layers = phase->layers;
        if (phase->optimizer.descriptor)
            options.optimizer = phase->optimizer;
    }
    return options;
}

/* The trainer of a phase; its failure does not say whose. */
static lk_status trainer_make(lk_job *job, int64_t phase, int64_t first)
{
    const lk_experiment *e = job->experiment;
    lk_trainer_free(job->trainer);
    job->trainer = NULL;
    job->phase = phase;
    const lk_phase *of = lk_job_phase(job);
    lk_trainer_options options = options_of(job);
    return LK_TRACE(
        lk_trainer_new_options(&(lk_trainer_spec){.model = job->model,
                                                  .chain = job->spec.chain,
                                                  .parallel_model = job->parallel,
                                                  .train = job->loader[LK_TRAIN],
                                                  .epochs = of ? of->epochs : e->train.epochs,
                                                  .first = first,
                                                  .comm = job->comm,
                                                  .pieces = e->pieces.cut,
                                                  .recompute = e->train.recompute,
                                                  .parallel = e->parallel},
                               &options, &job->trainer));
}

lk_status lk__job_enter_phase(lk_job *job, int64_t phase, int64_t first)
{
    lk_status st = trainer_make(job, phase, first);
    const lk_phase *of = lk_job_phase(job);
    if (st != LK_OK && of)
        lk__error_prefix("phase %s: ", of->name);
    return LK_TRACE(st);
}

/* The last phase, which is entered first, has failed.  Say that it is this one, unless all fail so: then it is
 * no phase's fault. */
static void last_failed(lk_job *job)
{
    lk__failure first, other;
    bool all = true;
    int64_t last = job->experiment->n_phases - 1;
    lk__failure_get(&first);
    for (int64_t i = 0; i < last; i++) {
        lk_status st = trainer_make(job, i, 0);
        lk__failure_get(&other);
        all = all && st == first.st && strcmp(other.message, first.message) == 0;
    }
    lk__failure_set(&first);
    if (!all)
        lk__error_prefix("phase %s: ", job->experiment->phase[last].name);
}

lk_status lk__job_begin_phases(lk_job *job)
{
    int64_t last = job->experiment->n_phases - 1;
    if (last > 0) {
        lk_status st = trainer_make(job, last, 0);
        if (st != LK_OK && !lk__is_end(st))
            last_failed(job);
        LK_TRY(st);
    }
    for (int64_t i = last - 1; i > 0; i--)
        LK_TRY(lk__job_enter_phase(job, i, 0));
    return LK_TRACE(lk__job_enter_phase(job, 0, 0));
}

const lk_phase *lk_job_phase(const lk_job *job)
{
    return job->experiment->n_phases > 0 ? &job->experiment->phase[job->phase] : NULL;
}

lk_status lk_job_set_phase(lk_job *job, int64_t phase)
{
    LK_FP_GUARD();
    LK_CHECK(job && job->trainer, LK_EINVAL, "job is NULL, or has failed");
    LK_CHECK(!job->runs, LK_ESTATE, "the job runs, and goes through its phases by itself");
    const lk_experiment *e = job->experiment;
    LK_CHECK(phase >= 0 && phase < (e->n_phases > 0 ? e->n_phases : 1), LK_EINVAL,
             "phase %lld of %lld", (long long)phase, (long long)e->n_phases);
    int64_t first = 0;
    for (int64_t i = 0; i < phase; i++)
        first += e->phase[i].epochs * lk_loader_batches(job->loader[LK_TRAIN]);
    if (phase != job->phase)
        LK_TRY(lk__job_enter_phase(job, phase, first));
    return LK_OK;
}
