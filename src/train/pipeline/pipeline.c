/* lk__pipeline, made once: its tapes, room for what goes to the neighbours, and the lists of actions,
 * each checked before the first byte of it moves.  actions.c says what happens with them.
 */
#include "base/failure.h"
#include "nn/model.h"
#include "train/pass.h"
#include "train/pipeline/internal.h"

#include <string.h>

static lk__boundary boundary_of(const lk_plan *plan, const lk_model *model, int64_t layer)
{
    const lk__list *list = &model->net->list[0];
    lk__boundary b = {.type = {.shape = {.ndim = -1}}};
    if (layer < 0 || layer >= list->n - 1)
        return b;
    int64_t number = list->instance[layer];
    const lk_box *box = &plan->layer[number].box;
    b.name = plan->layer[number].name;
    b.idle = plan->layer[number].idle;
    b.by_tile = lk__boundary_held(plan, model, layer) != NULL;
    b.type = (lk_tensor_type){model->net->instance[number].out.dtype, {.ndim = box->ndim}};
    memcpy(b.type.shape.dim, box->n, (size_t)box->ndim * sizeof box->n[0]);
    return b;
}

static lk_status room_new(const lk__boundary *b, int64_t samples, lk_tensor **out)
{
    lk_shape shape = {.ndim = b->type.shape.ndim + 1, .dim = {samples}};
    if (!lk__boundary_is(b))
        return LK_OK;
    memcpy(&shape.dim[1], b->type.shape.dim, (size_t)b->type.shape.ndim * sizeof shape.dim[0]);
    return LK_TRACE(lk_tensor_zeros(b->type.dtype, shape, out));
}

static lk_status slot_make(const lk_trainer *t, const lk__pipeline *p, lk__slot *s)
{
    lk_tape *tape = NULL;
    lk__leaves leaves = lk__groups_leaves(t->groups);
    LK_TRY(lk_tape_new(&tape));
    LK_TRY(lk__pass_room_make(t, t->plan, tape, &s->room)); /* whose it is, also after a failure */
    LK_TRY(lk_tape_set_shard_size(tape, lk_loader_shard_size(t->spec.train)));
    LK_TRY(lk__observer_new(t->spec.model, &leaves, &s->observed));
    LK_TRY(room_new(&p->before, p->plan->pass_samples, &s->x));
    return LK_TRACE(room_new(&p->behind, p->plan->pass_samples, &s->dy));
}

lk_status lk__schedule_get(lk__pipeline *p, lk_pipeline_kind kind, int64_t microbatches,
                           const lk_pipeline **out)
{
    lk__stage_lists *s = p->schedules;
    while (s && (s->made->kind != kind || s->made->microbatches != microbatches))
        s = s->next;
    if (!s) {
        lk_pipeline_spec spec = p->plan->pipeline;
        spec.kind = kind;
        spec.microbatches = microbatches;
        LK_TRY(lk_alloc_zero(&s, 1, sizeof *s));
        s->next = p->schedules;
        lk_status st = lk_pipeline_new(&spec, &s->made);
        if (st == LK_OK)
            st = lk_pipeline_check(s->made);
        if (st != LK_OK) { /* and is not kept: what is kept was checked */
            lk_pipeline_free(s->made);
            lk_free(s);
            LK_TRY(st);
        }
        p->schedules = s;
    }
    *out = s->made;
    return LK_OK;
}

static lk_status pipeline_fill(lk_trainer *t, lk__pipeline *p)
{
    const lk_plan *plan = t->plan;
    const lk_pipeline *largest;
    p->comm = t->mesh->along[LK_AXIS_STAGES];
    p->plan = plan;
    p->sums.model = t->spec.model;
    p->sums.leaves = lk__groups_leaves(t->groups);
    p->sums.adds = !lk_model_has_weight_reuse(t->spec.model);
    p->before = boundary_of(plan, t->spec.model, plan->layers.first - 1);
    p->behind = boundary_of(plan, t->spec.model, plan->layers.first + plan->layers.n - 1);
    LK_TRY(lk__schedule_get(p, plan->pipeline.kind, plan->microbatches, &largest));
    lk_pipeline_spec most = plan->pipeline;
    LK_TRY(lk__plan_most_microbatches(plan, &most.microbatches));
    p->n_slots = lk_pipeline_tapes(&most, plan->stage);
    p->n_slots = p->n_slots > 2 ? p->n_slots : 2; /* of evaluations */
    LK_TRY(lk_alloc_zero(&p->slot, p->n_slots, sizeof *p->slot));
    for (int64_t i = 0; i < p->n_slots; i++)
        LK_TRY(slot_make(t, p, &p->slot[i]));
    for (int i = 0; i < LK_PIPELINE_GRADIENTS; i++)
        LK_TRY(room_new(&p->before, plan->pass_samples, &p->dx[i]));
    p->helps = p->comm && lk_comm_set_progress(p->comm, true) == LK_OK;
    return LK_OK;
}

lk_status lk__pipeline_make(lk_trainer *t)
{
    lk__pipeline *p = NULL;
    if (t->plan->stages == 1)
        return LK_OK;
    LK_TRY(lk_alloc_zero(&p, 1, sizeof *p));
    t->pipeline = p;
    return LK_TRACE(pipeline_fill(t, p));
}

void lk_trainer_watch_actions(lk_trainer *t, lk_action_watch_fn *watch, void *context)
{
    if (!t->pipeline)
        return;
    t->pipeline->watch = watch;
    t->pipeline->watch_context = context;
}

lk_status lk__sends_finish(lk__pipeline *p)
{
    lk_status st = lk_waitall(LK_PIPELINE_GRADIENTS, p->dx_sent);
    for (int64_t i = 0; p->slot && i < p->n_slots; i++) {
        lk_status sent = lk_waitall(1, &p->slot[i].sent);
        st = st == LK_OK ? sent : st;
    }
    return LK_TRACE(st);
}

static void slot_free(lk__slot *s)
{
    lk_tape *tape = s->room.tape;
    lk_tape_free(tape);
    lk__pass_room_free(&s->room);
    lk_accumulator_free(s->observed);
    lk_tensor_free(s->x_now);
    lk_tensor_free(s->dy_now);
    lk_tensor_free(s->x);
    lk_tensor_free(s->dy);
    lk_tensor_free(s->part.x);
    lk_tensor_free(s->part.y);
}

void lk__pipeline_free(lk__pipeline *p)
{
    lk__failure why;
    if (!p)
        return;
    lk__failure_get(&why); /* of whatever has ended the job, which waiting would hide */
    (void)!lk__sends_finish(p);
    for (int64_t i = 0; p->slot && i < p->n_slots; i++)
        slot_free(&p->slot[i]);
    if (p->helps)
        (void)!lk_comm_set_progress(p->comm, false);
    lk__failure_set(&why);
    for (int i = 0; i < LK_PIPELINE_GRADIENTS; i++) {
        lk_tensor_free(p->dx_now[i]);
        lk_tensor_free(p->dx[i]);
    }
    while (p->schedules) {
        lk__stage_lists *next = p->schedules->next;
        lk_pipeline_free(p->schedules->made);
        lk_free(p->schedules);
        p->schedules = next;
    }
    lk__shard_sums_free(&p->sums);
    lk_free(p->slot);
    lk_free(p);
}
