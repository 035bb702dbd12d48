/* Training the steps of one configuration, and the hash of the state after each: see train.h. */
#include "verify/train.h"

#include "experiment.h"
#include "layout.h"
#include "verify/snapshot.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <string.h>

enum { BATCHES = 3 }; /* of the evaluation */

lk_status verify_trace_new(int64_t steps, verify_trace *out)
{
    *out = (verify_trace){.steps = steps};
    LK_TRY(lk_alloc_zero(&out->state, steps, sizeof *out->state));
    return LK_TRACE(lk_alloc_zero(&out->loss, steps, sizeof *out->loss));
}

void verify_trace_free(verify_trace *trace)
{
    lk_free(trace->state);
    lk_free(trace->loss);
    *trace = (verify_trace){.steps = 0};
}

/* ---- the evaluation ---- */

static uint64_t score_hash(const lk_trainer *trainer, const lk_eval *score)
{
    lk_hash h = lk_hash_start();
    bool lower;
    lk_hash_add_i64(&h, score->samples);
    lk_hash_add_bytes(&h, &score->loss, sizeof score->loss);
    for (int i = 0; lk_trainer_metric(trainer, i, &lower); i++) {
        lk_hash_add_bytes(&h, &score->value[i], sizeof score->value[i]);
        lk_hash_add_text(&h, score->json[i] ? score->json[i] : "");
    }
    return lk_hash_value(&h);
}

/* Evaluate on the first batches of the set. */
static lk_status evaluate(lk_job *job, uint64_t *out)
{
    const char *name;
    lk_dataset *part = NULL;
    lk_loader *few = NULL;
    lk_eval score;
    lk_loader *all = lk_job_evaluation(job, &name);
    *out = 0;
    if (!all)
        return LK_OK;
    int64_t n = 0;
    for (int64_t i = 0; i < BATCHES && i < lk_loader_batches(all); i++)
        n += lk_loader_batch_size(all, i);
    LK_TRY(lk_dataset_subset(lk_loader_dataset(all), lk_job_experiment(job)->seed, 0, n, &part));
    lk_status st = lk_loader_new_like(lk_job_loader(job, LK_TRAIN), part, &few);
    if (st == LK_OK)
        st = lk_trainer_evaluate(lk_job_trainer(job), few, &score);
    if (st == LK_OK)
        *out = score_hash(lk_job_trainer(job), &score);
    lk_loader_free(few);
    lk_dataset_free(part);
    return st;
}

/* ---- all ranks the same ---- */

/* What a rank saw, as numbers: losses, score.  States are one. */
static void trace_pack(const verify_trace *t, int64_t *out)
{
    memcpy(out, t->loss, sizeof *out * (size_t)t->steps);
    out[t->steps] = (int64_t)t->score;
}

static lk_status ranks_compare(lk_comm *comm, const verify_trace *seen)
{
    int64_t n = seen->steps + 1;
    int64_t *mine = NULL, *all = NULL;
    lk_status st;
    bool root = lk_comm_rank(comm) == 0;
    LK_TRY_TO(done, lk_alloc(&mine, n, sizeof *mine));
    LK_TRY_TO(done, lk_alloc(&all, root ? n * lk_comm_size(comm) : 0, sizeof *all));
    trace_pack(seen, mine);
    LK_TRY_TO(done, lk_gather(comm, mine, all, n, LK_I64, 0, "traces"));
    for (int r = 1; root && r < lk_comm_size(comm); r++)
        for (int64_t i = 0; i < n && st == LK_OK; i++)
            if (all[r * n + i] != mine[i])
                st = LK_RAISE(LK_ESTATE, "rank %d has another %s than rank 0 after step %lld", r,
                              i < seen->steps ? "loss" : "score",
                              (long long)(i < seen->steps ? i + 1 : seen->steps));
done:
    lk_free(mine);
    lk_free(all);
    return st;
}

/* ---- steps ---- */

static lk_status steps_run(lk_comm *comm, lk_job *job, const verify_setting *s, verify_trace *seen)
{
    for (int64_t i = 0; i < s->until; i++) {
        lk_step_report did;
        LK_TRY(lk_job_set_phase(job, phase_of_step(lk_job_experiment(job), i, s->steps)));
        LK_TRY(lk_trainer_step(lk_job_trainer(job), &did));
        LK_TRY(lk_trainer_hash(lk_job_trainer(job), &seen->state[i]));
        seen->loss[i] = did.loss;
    }
    LK_TRY(evaluate(job, &seen->score));
    if (s->snapshot)
        LK_TRY(snapshot_write(comm, lk_job_trainer(job), s->snapshot));
    return LK_TRACE(ranks_compare(comm, seen));
}

lk_status verify_train(lk_comm *comm, const verify_setting *setting, verify_trace *out)
{
    lk_experiment *experiment = NULL;
    lk_job *job = NULL;
    verify_trace seen;
    lk_status st = verify_trace_new(setting->until, &seen);
    if (st == LK_OK)
        st = experiment_copy(setting->version->experiment, &experiment);
    if (st == LK_OK)
        st = lk_experiment_expand(experiment, lk_comm_rank(comm), lk_comm_size(comm));
    LK_TRY_TO(done, lk_agree(comm, st));
    LK_TRY_TO(done, lk_job_new(experiment, comm, &job));
    LK_TRY_TO(done, steps_run(comm, job, setting, &seen));
    if (lk_comm_rank(comm) == 0) {
        memcpy(out->state, seen.state, sizeof *out->state * (size_t)out->steps);
        memcpy(out->loss, seen.loss, sizeof *out->loss * (size_t)out->steps);
        out->score = seen.score;
    }
done:
    lk_job_free(job);
    lk_experiment_free(experiment);
    verify_trace_free(&seen);
    return st;
}
