/* Going through the list of actions of this rank's stage (extra/pipeline.h), for a batch.
 *
 *     stage 0    F0 > F1 > F2 . . . < B0 F3 > < B1 ...      > sends what comes out to the next stage,
 *     stage 1         > F0 > F1 . < B0 < F2 > < B1 ...      < the gradient of what came in to the one before
 *
 * A micro-batch has a tape, on which its forward waits for its backward; what came from the stage before is a
 * leaf there, and what goes to the next one is what backward starts from.  Messages are actions, not nodes:
 * no rank waits inside a pass.  Statistics and losses are those of each micro-batch until its weights'
 * gradients are computed, which is in ascending order; the sums of micro-batches are then joined by the tree.
 */
#include "autograd/tape_access.h"
#include "nn/model.h"
#include "train/pass.h"
#include "train/pipeline/internal.h"

#include <lockstep/extra/clock.h>

#include <string.h>

/* ---- messages ---- */

/* The samples of a micro-batch that a rank has of a boundary's value. */
static int64_t samples_at(const lk__boundary *b, const lk__slot *s)
{
    const lk_pass_parts *parts = &s->room.parts;
    if (b->idle)
        return 0;
    if (b->by_tile || !parts->samples)
        return s->part.n;
    return parts->samples[parts->rank + 1] - parts->samples[parts->rank];
}

/* The part of a room that a micro-batch has, in place of the one before. */
static lk_status part_take(const lk__boundary *b, const lk__slot *s, lk_tensor *room,
                           lk_tensor **now)
{
    lk_tensor_free(*now);
    *now = NULL;
    return LK_TRACE(lk_tensor_slice(room, 0, 0, samples_at(b, s), 1, now));
}

lk_status lk__slot_make_room(const lk__pipeline_work *w, lk_action a, lk_tensor **out)
{
    lk__slot *s = lk__slot_of(w, a.microbatch);
    bool forward = a.value == LK_ACTION_ACTIVATION;
    lk_tensor **now = forward ? &s->x_now : &s->dy_now;
    LK_TRY(part_take(forward ? &w->p->before : &w->p->behind, s, forward ? s->x : s->dy, now));
    *out = *now;
    return LK_OK;
}

lk_status lk__slot_receive(const lk__pipeline_work *w, lk_action a)
{
    bool forward = a.value == LK_ACTION_ACTIVATION;
    const lk__boundary *b = forward ? &w->p->before : &w->p->behind;
    lk_tensor *now = NULL;
    void *data = NULL;
    LK_TRY(lk__slot_make_room(w, a, &now));
    LK_TRY(lk_tensor_writable_data(now, &data));
    return LK_TRACE(lk_recv(w->p->comm, data, lk_tensor_count(now), b->type.dtype,
                            w->p->plan->stage + (forward ? -1 : 1), a.microbatch, b->name, NULL));
}

static lk_status message_send(const lk__pipeline_work *w, lk_action a)
{
    lk__slot *s = lk__slot_of(w, a.microbatch);
    bool forward = a.value == LK_ACTION_ACTIVATION;
    const lk__boundary *b = forward ? &w->p->behind : &w->p->before;
    int at = (int)(a.microbatch % LK_PIPELINE_GRADIENTS);
    const lk_tensor *value = w->p->dx_now[at];
    if (forward)
        LK_TRY(lk_value(s->out, &value));
    return LK_TRACE(lk_isend(w->p->comm, lk_tensor_data(value),
                             b->idle ? 0 : lk_tensor_count(value), b->type.dtype,
                             w->p->plan->stage + (forward ? 1 : -1), a.microbatch, b->name,
                             forward ? &s->sent : &w->p->dx_sent[at]));
}

static lk_status message_wait(const lk__pipeline_work *w, lk_action a)
{
    lk_request **sent = a.value == LK_ACTION_ACTIVATION
                            ? &lk__slot_of(w, a.microbatch)->sent
                            : &w->p->dx_sent[a.microbatch % LK_PIPELINE_GRADIENTS];
    return LK_TRACE(lk_wait(sent, NULL));
}

/* ---- passes ---- */

void lk__slot_clear(lk__slot *s)
{
    lk_tape_reset(s->room.tape);
    lk_tensor_free(s->part.x);
    lk_tensor_free(s->part.y);
    s->part = (lk_batch){.x = NULL};
}

/* The last micro-batch that is done leaves its memory to the next one where stages compute again: tapes have it in
 * turns. */
static void memory_pass_on(lk__pipeline *p)
{
    if (p->done && p->plan->spec.recompute_stages)
        lk__tape_give_back(p->done);
    p->done = NULL;
}

lk_status lk__slot_begin(const lk__pipeline_work *w, int64_t microbatch)
{
    lk__slot *s = lk__slot_of(w, microbatch);
    const lk_plan *plan = w->p->plan;
    int64_t size = plan->microbatch_shards * plan->spec.shard_size, first = microbatch * size;
    int64_t n = w->batch->n - first < size ? w->batch->n - first : size;
    lk__slot_clear(s);
    if (w->p->done == s->room.tape)
        memory_pass_on(w->p);
    LK_TRY(lk__batch_part(w->batch, first, n, &s->part));
    (void)lk__pass_parts(w->t, &s->part, &s->room);
    return LK_OK;
}

lk_status lk__slot_enter(const lk__pipeline_work *w, lk__slot *s, const lk_pass *pass, lk_var *y)
{
    if (!lk__boundary_is(&w->p->before)) {
        return LK_TRACE(lk__pass_enter(w->t, pass->tape, pass->parts, &s->part, &s->in, y));
    }
    if (pass->accumulator && lk_dtype_is_real(w->p->before.type.dtype))
        LK_TRY(lk_leaf(pass->tape, s->x_now, NULL, &s->in));
    else
        LK_TRY(lk_constant(pass->tape, s->x_now, &s->in));
    return LK_TRACE(lk__pass_enter_target(w->t, pass->tape, pass->parts, &s->part, y));
}

static lk_status forward_run(const lk__pipeline_work *w, lk__slot *s, lk_pass *pass,
                             int64_t microbatch)
{
    lk_trainer *t = w->t;
    lk__pass_out result = {.counts = w->trains ? &t->step_counts : &t->eval_counts,
                           .accumulator = pass->accumulator,
                           .microbatch = microbatch,
                           .seeds = s->room.seeds};
    LK_TRY(lk__slot_enter(w, s, pass, &result.y));
    LK_TRY(lk_model_forward(t->spec.model, pass, s->in, &result.out));
    if (lk__boundary_is(&w->p->behind))
        LK_TRY(lk_contiguous(result.out, &result.out));
    s->out = result.out;
    return LK_TRACE(lk__pass_take(t, &result, &s->losses));
}

/* Forward for backward, of which statistics and losses go to the slot's observer. */
static lk_status forward_record(const lk__pipeline_work *w, lk__slot *s)
{
    lk_tape_reset(s->room.tape); /* of a forward alone */
    lk_accumulator_begin(s->observed);
    lk_pass pass = lk__pass_of(w->t, &s->part, s->observed, &s->room);
    return LK_TRACE(forward_run(w, s, &pass, 0));
}

/* Forward alone: of an evaluation, or of a stage whose backward computes it again, which alone counts then. */
static lk_status forward_alone(const lk__pipeline_work *w, lk__slot *s, int64_t microbatch)
{
    lk_pass pass = lk__pass_of(w->t, &s->part, NULL, &s->room);
    bool last = !lk__boundary_is(&w->p->behind);
    lk_tape_reset(s->room.tape);
    if (w->trains && last)
        return LK_OK;
    if (!w->trains) {
        pass.training = false;
        pass.batch = NULL;
        s->room.parts.batch = NULL; /* nothing is taken of the whole batch */
    }
    bool recorded = lk_tape_set_recording(s->room.tape, false);
    lk_status st;
    if (w->trains) {
        pass.terms = NULL;
        st = lk__slot_enter(w, s, &pass, &(lk_var){0});
        if (st == LK_OK)
            st = lk_model_forward(w->t->spec.model, &pass, s->in, &s->out);
        if (st == LK_OK)
            st = lk_contiguous(s->out, &s->out);
    } else {
        st = forward_run(w, s, &pass, microbatch);
    }
    (void)lk_tape_set_recording(s->room.tape, recorded);
    return LK_TRACE(st);
}

static lk_status forward(const lk__pipeline_work *w, lk_action a)
{
    lk__slot *s = lk__slot_of(w, a.microbatch);
    if (w->trains && !w->p->plan->spec.recompute_stages)
        LK_TRY(forward_record(w, s));
    else
        LK_TRY(forward_alone(w, s, a.microbatch));
    return LK_OK;
}

/* Where the gradient of what came in goes, from where it is sent. */
static lk_status gradient_aim(const lk__pipeline_work *w, lk__slot *s, int64_t microbatch)
{
    int at = (int)(microbatch % LK_PIPELINE_GRADIENTS);
    void *data = NULL;
    if (!lk__boundary_is(&w->p->before))
        return LK_OK;
    LK_TRY(part_take(&w->p->before, s, w->p->dx[at], &w->p->dx_now[at]));
    if (lk_needs_grad(s->in)) {
        return LK_TRACE(lk_leaf_set_grad(s->in, w->p->dx_now[at], true));
    }
    LK_TRY(lk_tensor_writable_data(w->p->dx_now[at], &data)); /* whole numbers have none */
    memset(data, 0,
           (size_t)lk_tensor_count(w->p->dx_now[at]) * lk_dtype_size(w->p->before.type.dtype));
    return LK_OK;
}

/* A micro-batch is done. */
static lk_status microbatch_end(const lk__pipeline_work *w, const lk__slot *s)
{
    LK_TRY(lk__shard_sums_push(&w->p->sums));
    w->p->done = s->room.tape;
    return LK_OK;
}

/* Where those of the weights go: to the next micro-batch's sums. */
static lk_status weights_aim(const lk__pipeline_work *w, const lk__slot *s)
{
    lk_accumulator *to;
    LK_TRY(lk__shard_sums_next(&w->p->sums, &to));
    return LK_TRACE(lk__observer_give(s->observed, to));
}

static lk_status backward(const lk__pipeline_work *w, lk_action a)
{
    lk__slot *s = lk__slot_of(w, a.microbatch);
    if (w->p->plan->spec.recompute_stages) {
        memory_pass_on(w->p);
        LK_TRY(forward_record(w, s));
    }
    int64_t n = s->losses;
    if (lk__boundary_is(&w->p->behind) && !w->p->behind.idle && lk_needs_grad(s->out))
        s->room.seeds[n++] = (lk_seed){s->out, s->dy_now};
    LK_TRY(gradient_aim(w, s, a.microbatch));
    if (a.kind == LK_ACTION_BACKWARD_INPUT)
        LK_TRY(lk__observer_postpone(s->observed));
    else
        LK_TRY(weights_aim(w, s));
    LK_TRY(lk__seed_fill(w->t, w->batch->size));
    LK_TRY(lk_backward(s->room.tape, s->room.seeds, (int)n, 0));
    if (a.kind == LK_ACTION_BACKWARD)
        LK_TRY(microbatch_end(w, s));
    return LK_OK;
}

static lk_status backward_weights(const lk__pipeline_work *w, lk_action a)
{
    lk__slot *s = lk__slot_of(w, a.microbatch);
    LK_TRY(weights_aim(w, s));
    LK_TRY(lk_backward_rest(s->room.tape));
    return LK_TRACE(microbatch_end(w, s));
}

/* ---- the list ---- */

/* Whether an action is the first of its micro-batch on this stage. */
static bool begins(const lk__pipeline_work *w, lk_action a)
{
    if (lk__boundary_is(&w->p->before))
        return a.kind == LK_ACTION_RECEIVE && a.value == LK_ACTION_ACTIVATION;
    return a.kind == LK_ACTION_FORWARD;
}

lk_status lk__action_run(const lk__pipeline_work *w, lk_action a)
{
    if (begins(w, a))
        LK_TRY(lk__slot_begin(w, a.microbatch));
    switch (a.kind) {
    case LK_ACTION_FORWARD: return forward(w, a);
    case LK_ACTION_BACKWARD:
    case LK_ACTION_BACKWARD_INPUT: return backward(w, a);
    case LK_ACTION_BACKWARD_WEIGHTS: return backward_weights(w, a);
    case LK_ACTION_SEND: return message_send(w, a);
    case LK_ACTION_RECEIVE: return lk__slot_receive(w, a);
    case LK_ACTION_WAIT: return message_wait(w, a);
    case LK_N_ACTION_KINDS: break;
    }
    return LK_RAISE(LK_EINVAL, "there is no action %d", (int)a.kind);
}

/* Which of the seconds of a step an action takes. */
static double *seconds_of(lk_step_seconds *time, lk_action_kind kind)
{
    switch (kind) {
    case LK_ACTION_FORWARD: return &time->forward;
    case LK_ACTION_BACKWARD:
    case LK_ACTION_BACKWARD_INPUT:
    case LK_ACTION_BACKWARD_WEIGHTS: return &time->backward;
    case LK_ACTION_SEND:
    case LK_ACTION_RECEIVE:
    case LK_ACTION_WAIT:
    case LK_N_ACTION_KINDS: break;
    }
    return &time->wait;
}

lk_status lk__actions_run(const lk__pipeline_work *w, int64_t shards)
{
    const lk_pipeline *lists;
    lk_pipeline_kind kind = w->trains ? w->p->plan->pipeline.kind : LK_PIPELINE_FORWARD;
    int64_t clock = lk_clock_ns();
    LK_TRY(lk__sends_finish(w->p));
    LK_TRY(lk__schedule_get(w->p, kind, lk__plan_microbatches(w->p->plan, shards), &lists));
    const lk_pipeline_stage *own = &lists->stage[w->p->plan->stage];
    LK_CHECK(
        own->tapes <= w->p->n_slots, LK_ESTATE,
        "%lld micro-batches of a batch of %lld shards are under way on stage %d, which has %lld "
        "tapes",
        (long long)own->tapes, (long long)shards, w->p->plan->stage, (long long)w->p->n_slots);
    lk_accumulator *to = w->trains ? lk__groups_accumulator(w->t->groups, 0) : NULL;
    lk__shard_sums_begin(&w->p->sums, to);
    for (int64_t i = 0; i < own->n; i++) {
        lk_action_span span = {.begin = clock};
        LK_TRY(lk__action_run(w, own->action[i]));
        *seconds_of(w->time, own->action[i].kind) += lk__seconds_since(&clock);
        span.end = clock;
        if (w->p->watch)
            w->p->watch(w->p->watch_context, own->action[i], span);
    }
    if (w->trains && lists->microbatches > 0)
        LK_TRY(lk__shard_sums_finish(&w->p->sums, to));
    return LK_OK;
}
