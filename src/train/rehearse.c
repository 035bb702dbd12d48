/* lk_trainer_rehearse(): what the passes of a plan take, found by some of them that compute nothing: of a step,
 * and of an evaluation where there is one.
 *
 * The trainer of one rank makes them, on its thread, in the place of the plan's rank.  Where the plan
 * has ranks along space, features or stages, it gets the plan with its tiles, accumulators, tapes and
 * boxes of samples for that time: ops on tiles then run as if the other ranks were there, send nothing,
 * and get zeros (lk_tiling.rehearses), and so does what comes from other stages.  So what is counted is
 * what the ops themselves ask for, margins and kernels' room among it.
 *
 * Nothing is computed, and large values are addresses without memory (base/memory/rehearsal.h): passes
 * that would not fit are rehearsed in little memory, and in no time.
 */
#include "autograd/tape_access.h"
#include "base/fpenv.h"
#include "base/memory/rehearsal.h"
#include "data/loader/loader.h"
#include "nn/model.h"
#include "train/batches.h"
#include "train/pass.h"

#include <lockstep/extra/trainer_plan.h>

/* What of a trainer is a plan's. */
typedef struct role {
    lk_plan *plan;
    lk__groups *groups;
    lk__shard_sums shards;
    lk__pass_room room;
} role;

static void role_swap(lk_trainer *t, role *other)
{
    role own = {t->plan, t->groups, t->shards, t->room};
    t->plan = other->plan;
    t->groups = other->groups;
    t->shards = other->shards;
    t->room = other->room;
    *other = own;
}

int64_t lk__sample_bytes(const lk_loader *l)
{
    int64_t bytes = (int64_t)sizeof(int64_t); /* its number */
    for (int f = 0; f < l->info->n_fields; f++) {
        lk_field field = lk_loader_field(l, f);
        int64_t elements = 1;
        for (int i = 0; i < field.shape.ndim; i++)
            elements *= field.shape.dim[i];
        bytes += elements * (int64_t)lk_dtype_size(field.dtype);
    }
    return bytes * l->n_slots;
}

lk_status lk__samples_plan(const lk_loader *l, lk_plan *plan)
{
    int64_t scratch, samples = lk_loader_batch_size(l, 0);
    LK_TRY(lk__scratch_bytes(l, &scratch));
    if (samples > plan->samples.n)
        samples = plan->samples.n;
    plan->memory.samples += samples * lk__sample_bytes(l) + l->n_readers * scratch +
                            lk__buffers_bytes(l, samples) + lk__keep_loader_bytes(l);
    return LK_OK;
}

/* The mesh of a plan's rank, without the others. */
static lk_mesh mesh_of(const lk_plan *p)
{
    lk_mesh m = {.world = NULL};
    for (int a = 0; a < LK_N_AXES; a++)
        m.n[a] = 1;
    m.n[LK_AXIS_DATA] = p->ranks;
    m.at[LK_AXIS_DATA] = p->rank;
    if (p->tiling) {
        m.n[LK_AXIS_SPACE] = p->tiling->size;
        m.at[LK_AXIS_SPACE] = p->tiling->rank;
    }
    if (p->split) {
        m.n[LK_AXIS_FEATURES] = p->split->size;
        m.at[LK_AXIS_FEATURES] = p->split->rank;
    }
    return m;
}

/* What is rehearsed in a role: passes over a batch of so many shards and samples, of which the rank has some. */
typedef struct part {
    lk_loader *eval; /* that is evaluated on; NULL: nothing is */
    int64_t shards, of_batch;
    lk_range samples;
} part;

/* Two passes of a kind: the second finds what the first has left. */
static lk_status passes_run(lk_trainer *t, const part *p, bool trains)
{
    lk__batch_work work = {
        .loader = t->spec.train, .size = p->samples.n, .trains = trains, .zeros = &p->samples};
    lk_status unread;
    for (int i = 0; i < 2 && p->samples.n > 0; i++) {
        if (trains)
            (void)lk__groups_begin(t->groups, p->shards, p->of_batch);
        else
            (void)lk__groups_deal_batch(t->groups, p->shards, p->of_batch);
        LK_TRY(lk__batch_run(t, &work, NULL, &(lk_step_seconds){0}, &unread));
    }
    return LK_OK;
}

/* *bytes: that all of them have taken.  Afterwards the tape has no memory left, for this was of addresses
 * alone. */
static lk_status part_run(lk_trainer *t, const part *p, int64_t *bytes)
{
    int64_t before = lk_alloc_stats_now().live_bytes;
    bool outer = lk__rehearsal_set(true), stages = t->plan->stages > 1;
    int64_t most = 0;
    lk_status st = stages ? lk__pipeline_rehearse(t, p->samples, &most) : LK_OK;
    if (!stages)
        st = passes_run(t, p, true);
    if (st == LK_OK && p->eval && !stages)
        st = passes_run(t, p, false);
    int64_t after = lk_alloc_stats_now().live_bytes;
    lk__pipeline_free(t->pipeline);
    t->pipeline = NULL;
    (void)lk__rehearsal_set(outer);
    lk__tape_give_back(t->tape);
    LK_TRY(st);
    *bytes = stages ? most : after - before;
    return LK_OK;
}

/* Samples of both loaders, in the boxes of the plan's rank. */
static lk_status boxes_plan(const lk_trainer *t, lk_loader *eval, lk_plan *plan)
{
    plan->memory.samples = 0;
    LK_TRY(lk__pass_set_boxes(t, t->spec.train, true));
    LK_TRY(lk__samples_plan(t->spec.train, plan));
    if (!eval)
        return LK_OK;
    LK_TRY(lk__pass_set_boxes(t, eval, true));
    return LK_TRACE(lk__samples_plan(eval, plan));
}

/* In the plan's role: all of its rank's samples are one pass, or passes of a shard each, or of micro-batches. */
static lk_status role_run(lk_trainer *t, lk_loader *eval)
{
    lk_plan *p = t->plan;
    part own = {eval, p->spec.shards, p->spec.batch, p->samples};
    LK_TRY(boxes_plan(t, eval, p));
    if (p->tiling)
        p->tiling->rehearses = p->tiling->size > 1;
    if (p->split)
        p->split->rehearses = p->split->size > 1;
    lk_status st = part_run(t, &own, &p->memory.values);
    if (p->tiling)
        p->tiling->rehearses = false;
    if (p->split)
        p->split->rehearses = false;
    return LK_TRACE(st);
}

/* Whether the plan's rank has a part of the features. */
static bool has_some_features(const lk_plan *p)
{
    return p->split && p->split->size > 1;
}

/* The model then has the plan's blocks. */
static lk_status blocks_pretend(const lk_trainer *t, const lk_plan *p, lk__kept *kept)
{
    if (!has_some_features(p))
        return LK_OK;
    bool outer = lk__rehearsal_set(true);
    lk_status st = lk__model_pretend(t->spec.model, &(lk_holding){.blocks = &p->split->held}, kept);
    (void)lk__rehearsal_set(outer);
    return LK_TRACE(st);
}

static lk_status role_rehearse(lk_trainer *t, lk_loader *eval, lk_plan *plan)
{
    lk_mesh mesh = mesh_of(plan);
    lk__kept kept;
    LK_TRY(blocks_pretend(t, plan, &kept));
    role other = {.plan = plan, .shards = {.model = t->shards.model}};
    lk_status st = lk__pass_room_make(t, plan, t->tape, &other.room);
    if (st == LK_OK)
        st = lk__groups_new(plan, &mesh, t->spec.model, &other.groups);
    if (st == LK_OK) {
        other.shards.leaves = lk__groups_leaves(other.groups);
        role_swap(t, &other);
        st = role_run(t, eval);
        lk_status whole = lk__pass_set_boxes(t, t->spec.train, false);
        st = st == LK_OK ? whole : st;
        whole = eval ? lk__pass_set_boxes(t, eval, false) : LK_OK;
        st = st == LK_OK ? whole : st;
        role_swap(t, &other);
    }
    lk__shard_sums_free(&other.shards);
    lk__groups_free(other.groups);
    lk__pass_room_free(&other.room);
    if (has_some_features(plan))
        lk__model_recover(t->spec.model, &kept);
    return LK_TRACE(st);
}

int lk__plan_rank(const lk_plan *plan, int *ranks)
{
    int space = plan->tiling ? plan->tiling->size : 1, at = plan->tiling ? plan->tiling->rank : 0;
    int features = plan->split ? plan->split->size : 1, f = plan->split ? plan->split->rank : 0;
    *ranks = plan->stages * plan->ranks * space * features;
    return ((plan->stage * plan->ranks + plan->rank) * space + at) * features + f;
}

bool lk__plan_spreads(const lk_trainer *t, const lk_plan *plan)
{
    const lk__net *net = t->spec.model->net;
    for (int64_t i = 0; plan->tiling && plan->tiling->size > 1 && i < net->n_params; i++)
        if (lk__net_positions(net, i) > 0)
            return true;
    return false;
}

lk_status lk_trainer_rehearse(lk_trainer *t, lk_loader *eval, lk_plan *plan)
{
    LK_FP_GUARD();
    int64_t shard_size = lk_loader_shard_size(t->spec.train), samples = plan->pass_samples;
    LK_CHECK(t->step == 0 && !lk__trainer_comm(t), LK_ESTATE,
             "only a trainer of this rank alone that has done no step can rehearse one");
    bool space = plan->tiling && plan->tiling->size > 1;
    if ((space || plan->stages > 1 || has_some_features(plan)) && !lk__plan_spreads(t, plan)) {
        return LK_TRACE(role_rehearse(t, eval, plan));
    }
    plan->memory.samples = 0;
    LK_TRY(lk__samples_plan(t->spec.train, plan));
    if (eval)
        LK_TRY(lk__samples_plan(eval, plan));
    if (space) /* this rank has other weights than the plan's: the sum of values must do */
        return LK_OK;
    part own = {eval, (samples - 1) / shard_size + 1, samples, {0, samples}};
    if (samples > 0)
        LK_TRY(part_run(t, &own, &plan->memory.values));
    return LK_OK;
}
