/* lk_job_plan(): all that a rank of a layout would take in an experiment: steps, evaluations, and what saving
 * copies.  `lockstep plan` calls it, on the thread of a job of this rank alone. */
#include "base/fpenv.h"
#include "train/run/saver.h"

#include <lockstep/extra/trainer_plan.h>

/* Checkpoints are of a folder; without one nothing is saved. */
static lk_status saving_plan(lk_job *job, lk_plan *plan)
{
    const lk_train_options *o = &job->experiment->train;
    lk__saver s = {.job = job, .trainer = job->trainer};
    if (!o->output && !o->checkpoint.folder)
        return LK_OK;
    lk_status st = lk__saver_describe(&s);
    if (st == LK_OK)
        st = lk__saver_plan(&s, plan);
    lk_state_tensors_free(s.tensors);
    return LK_TRACE(st);
}

lk_status lk_job_plan(lk_job *job, const lk_mesh_shape *shape, int ranks, int rank, lk_plan **out)
{
    LK_FP_GUARD();
    const char *name;
    *out = NULL;
    LK_CHECK(job && job->trainer, LK_EINVAL, "job is NULL, or has failed");
    bool evaluates = job->experiment->train.evaluate.n > 0;
    LK_TRY(lk_trainer_plan_of(job->trainer, shape, ranks, rank, out));
    lk_status st = lk_trainer_rehearse(job->trainer,
                                       evaluates ? lk_job_evaluation(job, &name) : NULL, *out);
    if (st == LK_OK)
        st = saving_plan(job, *out);
    if (st != LK_OK) {
        lk_plan_free(*out);
        *out = NULL;
    }
    return LK_TRACE(st);
}
