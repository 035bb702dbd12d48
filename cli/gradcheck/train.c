/* Steps of a model on ranks that are threads of this process. */
#include "gradcheck/train.h"

#include "gradcheck/node_kinds.h"
#include "layout.h"
#include "scratch.h"
#include "verify/snapshot.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/trainer_plan.h>

#include <stdio.h>

/* The momentum is too small to be seen beside a gradient, so what the optimizer keeps is the gradient. */
static const char optimizer[] = "optimizer={type: sgd, rate: 0.01, momentum: 1e-30}";

lk_status gradcheck_model_read(const gradcheck_model *m, const char *parallel, lk_experiment **out)
{
    char layout[256];
    const char **all = NULL;
    int n = 0;
    snprintf(layout, sizeof layout, "parallel=%s", parallel);
    LK_TRY(lk_alloc((void *)&all, m->n + 2, sizeof *all));
    while (n < m->n) {
        all[n] = m->assignment[n];
        n++;
    }
    all[n++] = optimizer;
    all[n++] = layout;
    lk_status st = m->path ? lk_experiment_read(m->path, all, n, out)
                           : lk_experiment_parse(m->name, m->text, all, n, out);
    lk_free(all);
    return LK_TRACE(st);
}

/* A trial, and where its ranks write snapshots. */
typedef struct ranks {
    const gradcheck_trial *trial;
    char folder[SCRATCH_PATH];
} ranks;

enum { FILE_PATH = SCRATCH_PATH + 64 };

static const char *file_of(const ranks *r, int64_t step, char path[FILE_PATH])
{
    snprintf(path, FILE_PATH, "%s/%lld.safetensors", r->folder, (long long)step);
    return path;
}

/* Each rank writes to rows of its own. */
static lk_status steps_run(lk_comm *comm, lk_job *job, const ranks *r)
{
    const gradcheck_trial *t = r->trial;
    int64_t rank = lk_comm_rank(comm), before = -1;
    for (int64_t i = 0; i < t->steps; i++) {
        lk_step_report report;
        uint64_t state;
        char path[FILE_PATH];
        int64_t phase = phase_of_step(lk_job_experiment(job), i, t->steps);
        LK_TRY(lk_job_set_phase(job, phase));
        lk_trainer *trainer = lk_job_trainer(job);
        if (phase != before)
            gradcheck_kinds_count(lk_trainer_plan(trainer), &t->nodes[rank * GRADCHECK_KINDS]);
        before = phase;
        LK_TRY(lk_trainer_step(trainer, &report));
        t->loss[rank * t->steps + i] = report.loss;
        LK_TRY(lk_trainer_hash(trainer, &state)); /* compares what several ranks have alike */
        LK_TRY(snapshot_write(comm, trainer, file_of(r, i, path)));
    }
    return LK_OK;
}

static lk_status rank_run(lk_comm *comm, void *arg)
{
    const ranks *r = arg;
    const gradcheck_model *model = r->trial->model;
    lk_job_spec spec = {.comm = comm, .set = {[LK_TRAIN] = model->set}};
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_status st = gradcheck_model_read(model, r->trial->parallel, &e);
    if (st == LK_OK)
        st = lk_experiment_expand(e, lk_comm_rank(comm), lk_comm_size(comm));
    LK_TRY_TO(done, lk_agree(comm, st));
    spec.experiment = e;
    LK_TRY_TO(done, lk_job_new_spec(&spec, &job));
    LK_TRY_TO(done, steps_run(comm, job, r));
done:
    lk_job_free(job);
    lk_experiment_free(e);
    return st;
}

/* Files that are open need neither their names nor the folder. */
static lk_status trial_run(gradcheck_trial *t)
{
    ranks r = {.trial = t};
    char path[FILE_PATH];
    LK_TRY(scratch_make(NULL, "gradcheck", r.folder));
    lk_status st = lk_run_local(t->ranks, rank_run, &r);
    for (int64_t i = 0; i < t->steps && st == LK_OK; i++)
        st = lk_safetensors_open(file_of(&r, i, path), &t->state[i]);
    scratch_remove(r.folder);
    return LK_TRACE(st);
}

lk_status gradcheck_train(gradcheck_trial *t)
{
    t->state = NULL;
    t->loss = NULL;
    t->nodes = NULL;
    LK_TRY(lk_alloc_zero(&t->state, t->steps, sizeof(lk_safetensors *)));
    LK_TRY(lk_alloc_zero(&t->loss, t->ranks * t->steps, sizeof *t->loss));
    LK_TRY(lk_alloc_zero(&t->nodes, (int64_t)t->ranks * GRADCHECK_KINDS, sizeof *t->nodes));
    return LK_TRACE(trial_run(t));
}

void gradcheck_trial_free(gradcheck_trial *t)
{
    for (int64_t i = 0; i < t->steps && t->state; i++)
        lk_safetensors_close(t->state[i]);
    lk_free(t->state);
    lk_free(t->loss);
    lk_free(t->nodes);
}
