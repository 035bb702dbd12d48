/* Steps of an experiment, each with the hash of the state that it leads to. */
#include "verify_train.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/io.h>

#include <string.h>

enum { BATCHES = 3 }; /* of the evaluation */

lk_status verify_trace_new(int64_t steps, verify_trace *out)
{
    *out = (verify_trace){.steps = steps};
    LK_TRY(lk_alloc_zero(&out->state, steps, sizeof *out->state));
    LK_TRY(lk_alloc_zero(&out->loss, steps, sizeof *out->loss));
    return LK_OK;
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

/* ---- the snapshot ---- */

/* Tensors to be written. */
struct tensors {
    lk_named_tensor *named;
    int64_t n, room;
    lk_arena *arena; /* of the names */
};

/* Takes over `tensor`. */
static lk_status tensors_add(struct tensors *to, const char *before, const char *name,
                             lk_tensor *tensor)
{
    char *text = NULL;
    size_t size = strlen(before) + strlen(name) + 1;
    lk_status st = to->n < to->room ? lk_arena_alloc(to->arena, &text, (int64_t)size, 1)
                                    : LK_RAISE(LK_EOVERFLOW, "more tensors than were counted");
    if (st != LK_OK) {
        lk_tensor_free(tensor);
        LK_TRY(st);
    }
    snprintf(text, size, "%s%s", before, name);
    to->named[to->n++] = (lk_named_tensor){text, tensor};
    return LK_OK;
}

static lk_status slab_add(struct tensors *to, const char *before, const lk_slab *slab)
{
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slab)); i++) {
        lk_slab_slice slice;
        lk_tensor *tensor = NULL;
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &slice));
        LK_TRY(lk_slab_tensor(slab, i, &tensor));
        LK_TRY(tensors_add(to, before, slice.name, tensor));
    }
    return LK_OK;
}

static lk_status state_add(struct tensors *to, const lk_trainer *trainer)
{
    lk_optimizer *optimizer = lk_trainer_optimizer(trainer);
    const char *name;
    const lk_slab *slab;
    double *number;
    char before[128];
    LK_TRY(slab_add(to, "", lk_model_params(lk_trainer_model(trainer))));
    LK_TRY(slab_add(to, "state/", lk_model_state(lk_trainer_model(trainer))));
    for (int i = 0; (slab = lk_optimizer_slab(optimizer, i, &name)); i++) {
        snprintf(before, sizeof before, "optimizer/%s/", name);
        LK_TRY(slab_add(to, before, slab));
    }
    for (int i = 0; (number = lk_optimizer_number(optimizer, i, &name)); i++) {
        lk_tensor *tensor = NULL;
        LK_TRY(lk_tensor_zeros(LK_F64, LK_SCALAR, &tensor));
        lk_status st = lk_tensor_fill_f64(tensor, *number);
        if (st == LK_OK)
            st = tensors_add(to, "optimizer/", name, tensor);
        LK_TRY(st);
    }
    return LK_OK;
}

/* Write all that lk_trainer_hash() looks at, in its order. */
static lk_status snapshot_write(const lk_trainer *trainer, const char *path)
{
    const lk_model *model = lk_trainer_model(trainer);
    struct tensors t = {.room = lk_slab_layout_slices(lk_slab_layout_of(lk_model_state(model)))};
    lk_status st;
    t.room += (1 + LK_OPTIMIZER_MAX_SLABS) *
                  lk_slab_layout_slices(lk_slab_layout_of(lk_model_params(model))) +
              LK_OPTIMIZER_MAX_NUMBERS;
    LK_TRY(lk_arena_new(&t.arena));
    LK_TRY_TO(done, lk_alloc(&t.named, t.room, sizeof *t.named));
    LK_TRY_TO(done, state_add(&t, trainer));
    LK_TRY_TO(done, lk_safetensors_write(path, t.named, t.n, NULL, 0));
done:
    for (int64_t i = 0; i < t.n; i++)
        lk_tensor_free(t.named[i].tensor);
    lk_free(t.named);
    lk_arena_free(t.arena);
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

static lk_status steps_run(lk_comm *comm, lk_job *job, const verify_setting *s, verify_trace *seen)
{
    lk_trainer *trainer = lk_job_trainer(job);
    for (int64_t i = 0; i < s->steps; i++) {
        lk_step_report report;
        LK_TRY(lk_trainer_step(trainer, &report));
        LK_TRY(lk_trainer_hash(trainer, &seen->state[i]));
        seen->loss[i] = report.loss;
    }
    LK_TRY(evaluate(job, &seen->score));
    if (s->snapshot && lk_comm_rank(comm) == 0)
        LK_TRY(snapshot_write(trainer, s->snapshot));
    LK_TRY(ranks_compare(comm, seen));
    return LK_OK;
}

lk_status verify_train(lk_comm *comm, const verify_setting *setting, verify_trace *out)
{
    lk_job *job = NULL;
    verify_trace seen;
    lk_status st;
    LK_TRY_TO(done, verify_trace_new(setting->steps, &seen));
    LK_TRY_TO(done, lk_job_new(setting->experiment, comm, &job));
    LK_TRY_TO(done, steps_run(comm, job, setting, &seen));
    if (lk_comm_rank(comm) == 0) {
        memcpy(out->state, seen.state, sizeof *out->state * (size_t)out->steps);
        memcpy(out->loss, seen.loss, sizeof *out->loss * (size_t)out->steps);
        out->score = seen.score;
    }
done:
    lk_job_free(job);
    verify_trace_free(&seen);
    return st;
}
