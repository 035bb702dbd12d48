/* Batches of a model that is cut into stages: those of steps and of evaluations, and one whose loss was
 * not finite.
 *
 * The first stage reads x, and the last what is to come out.  A rank that cannot read its samples goes
 * through the list with zeros; one that fails in it ends the job.  On the trainer's thread; ranks along the
 * stages do it together.
 */
#include "base/failure.h"
#include "nn/model.h"
#include "train/pass.h"
#include "train/pipeline/internal.h"

#include <lockstep/extra/clock.h>
#include <lockstep/pieces.h>

#include <stdio.h>

/* ---- the losses of an evaluation ---- */

/* Those of micro-batches [first, first + n), by the tree. */
static double tree_sum(const double *own, int64_t leaves, int64_t n, lk_dtype dtype)
{
    if (n == 1)
        return own[0];
    int64_t half = lk_tree_half(n);
    double lower = tree_sum(own, leaves, half, dtype),
           upper = tree_sum(own + half * leaves, leaves, n - half, dtype);
    return dtype == LK_F32 ? (double)((float)lower + (float)upper) : lower + upper;
}

/* What all micro-batches of this rank have, in place of what the first has. */
static void losses_join(const lk_trainer *t, int64_t microbatches)
{
    for (int64_t i = 0; i < t->n_summands; i++) {
        const lk__summand *s = &t->summand[i];
        int64_t leaves = lk__pass_leaves(t, s);
        bool here = lk__pass_has(t, s) && microbatches > 0;
        for (int64_t k = 0; k < leaves; k++)
            s->own[k] = here ? tree_sum(s->own + k, leaves, microbatches, t->out.dtype) : 0;
    }
}

/* ---- a batch ---- */

/* Whether this rank's stage takes samples: the first x, the last what is to come out. */
static bool reads(const lk__pipeline *p)
{
    return !lk__boundary_is(&p->before) || !lk__boundary_is(&p->behind);
}

static lk_status batch_pass(lk__pipeline_work *w, const lk_batch *batch, int64_t shards)
{
    w->batch = batch;
    LK_TRY(lk__actions_run(w, shards));
    if (!w->trains)
        losses_join(w->t, lk__plan_microbatches(w->p->plan, shards));
    return LK_OK;
}

lk_status lk__pipeline_run(lk_trainer *t, const lk__batch_work *work, lk_batch *batch,
                           lk_step_seconds *time, lk_status *unread)
{
    lk__pipeline_work w = {.t = t, .p = t->pipeline, .trains = work->trains, .time = time};
    lk_range samples = lk__batch_samples(t, work->size, work->shards);
    lk__failure why;
    *unread = LK_OK;
    *batch = (lk_batch){.size = work->size, .first = samples.first, .n = samples.n};
    if (samples.n > 0 && reads(w.p)) {
        int64_t clock = lk_clock_ns();
        *unread = lk__batch_read(t, work, samples, batch);
        time->data = lk__seconds_since(&clock);
    }
    if (*unread == LK_OK) {
        return LK_TRACE(batch_pass(&w, batch, work->shards.n));
    }
    lk_batch zeros = {.size = work->size, .first = samples.first, .n = samples.n};
    lk__failure_get(&why);
    LK_TRY(lk__batch_zeros(work, &zeros));
    lk_status st = batch_pass(&w, &zeros, work->shards.n);
    for (int64_t i = 0; i < w.p->n_slots; i++)
        lk__slot_clear(&w.p->slot[i]); /* which have them */
    lk_tensor_free(zeros.x);
    lk_tensor_free(zeros.y);
    LK_TRY(st);
    lk__failure_set(&why);
    return LK_OK;
}

/* ---- rehearsals ---- */

/* What the action would do with others: there is room for what it receives, and nothing is sent. */
static lk_status action_rehearse(const lk__pipeline_work *w, lk_action a)
{
    lk_tensor *room;
    if (a.kind == LK_ACTION_SEND || a.kind == LK_ACTION_WAIT)
        return LK_OK;
    if (a.kind != LK_ACTION_RECEIVE)
        return lk__action_run(w, a);
    if (a.value == LK_ACTION_ACTIVATION)
        LK_TRY(lk__slot_begin(w, a.microbatch));
    return LK_TRACE(lk__slot_make_room(w, a, &room));
}

/* Go through a list, and note the most that was there behind an action. */
static lk_status list_rehearse(const lk__pipeline_work *w, const lk_pipeline_stage *list,
                               int64_t *most)
{
    lk__shard_sums_begin(&w->p->sums, NULL);
    for (int64_t i = 0; i < list->n; i++) {
        LK_TRY(action_rehearse(w, list->action[i]));
        int64_t now = lk_alloc_stats_now().live_bytes;
        *most = now > *most ? now : *most;
    }
    return LK_OK;
}

lk_status lk__pipeline_rehearse(lk_trainer *t, lk_range samples, int64_t *bytes)
{
    const lk_pipeline *lists;
    lk_batch zeros = {.size = samples.n, .first = samples.first, .n = samples.n};
    lk__batch_work work = {.loader = t->spec.train, .size = samples.n};
    int64_t before = lk_alloc_stats_now().live_bytes, most = 0;
    *bytes = 0;
    if (samples.n == 0)
        return LK_OK;
    LK_TRY(lk__pipeline_make(t));
    lk__pipeline_work w = {.t = t, .p = t->pipeline, .batch = &zeros, .trains = true};
    LK_TRY(lk__schedule_get(w.p, t->plan->pipeline.kind, t->plan->microbatches, &lists));
    const lk_pipeline_stage *own = &lists->stage[t->plan->stage];
    (void)lk__groups_begin(t->groups, t->plan->spec.shards, t->plan->spec.batch);
    lk_status st = lk__batch_zeros(&work, &zeros);
    for (int i = 0; i < 2 && st == LK_OK; i++) { /* the second time sums are all there */
        most = 0;
        st = list_rehearse(&w, own, &most);
    }
    for (int64_t i = 0; i < w.p->n_slots; i++)
        lk__slot_clear(&w.p->slot[i]);
    int64_t others = lk_alloc_stats_now().live_bytes; /* sums, which the plan counts as gradients */
    lk__shard_sums_free(&w.p->sums);
    lk_tensor_free(zeros.x);
    lk_tensor_free(zeros.y);
    others -= lk_alloc_stats_now().live_bytes;
    *bytes = most - others - before;
    return LK_TRACE(st);
}

/* ---- what is not finite ---- */

/* One micro-batch: what came in, its layers one by one, and what goes out, each waited for. */
static lk_status nonfinite_pass(const lk__pipeline_work *w, int64_t microbatch, char *name,
                                size_t size)
{
    lk__slot *s = lk__slot_of(w, microbatch);
    const lk__pipeline *p = w->p;
    const lk_tensor *value = NULL;
    lk_var y;
    LK_TRY(lk__slot_begin(w, microbatch));
    if (lk__boundary_is(&p->before))
        LK_TRY(
            lk__slot_receive(w, (lk_action){LK_ACTION_RECEIVE, LK_ACTION_ACTIVATION, microbatch}));
    lk_tape_reset(s->room.tape);
    lk_pass pass = lk__pass_of(w->t, &s->part, NULL, &s->room);
    LK_TRY(lk__slot_enter(w, s, &pass, &y));
    LK_TRY(lk_model_find_nonfinite(w->t->spec.model, &pass, s->in, name, size, &s->out));
    if (!lk__boundary_is(&p->behind))
        return LK_OK;
    LK_TRY(lk_contiguous(s->out, &s->out));
    LK_TRY(lk_value(s->out, &value));
    return LK_TRACE(lk_send(p->comm, lk_tensor_data(value),
                            p->behind.idle ? 0 : lk_tensor_count(value), p->behind.type.dtype,
                            p->plan->stage + 1, microbatch, p->behind.name));
}

lk_status lk__pipeline_find_nonfinite(lk_trainer *t, const lk_batch *batch, char *name, size_t size)
{
    lk__pipeline_work w = {.t = t, .p = t->pipeline, .batch = batch, .trains = true};
    int64_t shards = (batch->n - 1) / t->plan->spec.shard_size + 1;
    int64_t first = INT64_MAX;
    char one[240];
    name[0] = '\0';
    for (int64_t i = 0; i < lk__plan_microbatches(t->plan, shards); i++) {
        int64_t order;
        LK_TRY(nonfinite_pass(&w, i, one, sizeof one));
        LK_TRY(lk__layer_order(t->spec.model, one, &order));
        if (one[0] && order < first) { /* which a pass of the whole batch would find */
            snprintf(name, size, "%s", one);
            first = order;
        }
    }
    return LK_OK;
}
