/* Passes of a trainer: what of the samples goes in on this rank, and the loss of what comes out.
 *
 * A rank has whole samples, all of the pass or those that it owns among the ranks along space; or its box
 * of each (plan.h: in, out).  The loss is that of the samples it has, or where it is tiled one for each of
 * its tiles.  The step and evaluation call this, on the trainer's thread.
 */
#include "train/pass.h"

#include "data/loader/loader.h"
#include "nn/model.h"
#include "train/same.h"

#include <stdio.h>
#include <string.h>

/* ---- what goes in ---- */

/* Whether this rank's stage has what comes out, and so needs what it is compared with. */
static bool has_target(const lk_trainer *t)
{
    return t->counts_loss && (!t->plan || t->plan->stage == t->plan->stages - 1);
}

/* The samples of a tensor that this rank has, as a variable. */
static lk_status samples_enter(lk_tape *tape, const lk_pass_parts *parts, lk_domain domain,
                               lk_tensor *whole, lk_var *out)
{
    lk_tensor *own = NULL;
    if (!parts || !parts->samples || domain == LK_BY_TILE) {
        return LK_TRACE(lk_constant(tape, whole, out));
    }
    int64_t first = parts->samples[parts->rank], end = parts->samples[parts->rank + 1];
    LK_TRY(lk_tensor_slice(whole, 0, first, end, 1, &own));
    lk_status st = lk_constant(tape, own, out);
    lk_tensor_free(own);
    return LK_TRACE(st);
}

lk_status lk__pass_enter(const lk_trainer *t, lk_tape *tape, const lk_pass_parts *parts,
                         const lk_batch *batch, lk_var *x, lk_var *y)
{
    lk_domain in = t->plan ? t->plan->in : LK_BY_SAMPLE;
    LK_CHECK(batch->x && (batch->y || !has_target(t)), LK_EINVAL, "%s",
             batch->n_fields > 0 ? "the data has no field \"y\" to learn"
                                 : "the data is empty: samples without x and y, nothing can be "
                                   "computed of them");
    LK_TRY(samples_enter(tape, parts, in, batch->x, x));
    return LK_TRACE(lk__pass_enter_target(t, tape, parts, batch, y));
}

lk_status lk__pass_enter_target(const lk_trainer *t, lk_tape *tape, const lk_pass_parts *parts,
                                const lk_batch *batch, lk_var *y)
{
    *y = LK_NO_VAR;
    if (has_target(t))
        LK_TRY(samples_enter(tape, parts, t->plan ? t->plan->out : LK_BY_SAMPLE, batch->y, y));
    return LK_OK;
}

lk_status lk__pass_room_make(const lk_trainer *t, const lk_plan *plan, lk_tape *tape,
                             lk__pass_room *out)
{
    const lk_tiling *tiling = plan->tiling;
    int64_t leaves = tiling ? lk_tiling_leaves(tiling) : 1;
    *out = (lk__pass_room){.tape = tape};
    LK_TRY(lk_alloc_zero(&out->owners, tiling ? tiling->size + 1 : 1, sizeof *out->owners));
    /* and one of what goes to the next stage */
    return LK_TRACE(lk_alloc_zero(&out->seeds, t->n_summands * leaves + 1, sizeof *out->seeds));
}

void lk__pass_room_free(lk__pass_room *room)
{
    lk_free(room->owners);
    lk_free(room->seeds);
}

const lk_pass_parts *lk__pass_parts(const lk_trainer *t, const lk_batch *batch, lk__pass_room *room)
{
    lk_range samples = {batch->first, batch->n};
    if (!t->plan->part)
        return NULL;
    room->parts = lk__groups_parts(t->groups, samples, t->plan->spec.shard_size, room->owners);
    return &room->parts;
}

lk_pass lk__pass_of(const lk_trainer *t, const lk_batch *batch, lk_accumulator *accumulator,
                    lk__pass_room *room)
{
    lk_pass pass = {.tape = room->tape,
                    .accumulator = accumulator,
                    .training = true,
                    .step = t->step,
                    .first = batch->first,
                    .part = batch->n<batch->size, .recompute = t->spec.recompute,
                                     .parts = lk__pass_parts(t, batch, room),
                                     .terms = lk__pass_terms(t), .layers = t->plan->stages> 1
                                ? t->plan->layers
                                : (lk_range){0, 0},
                    .batch = lk__groups_batch(t->groups)};
    return pass;
}

/* The box of a field whose first axes are cut like a value; the others are whole. */
static lk_box field_box(const lk_loader *loader, int field, const lk_box *cut)
{
    lk_box box = lk_loader_box(loader, field);
    for (int d = 0; d < cut->ndim && d < box.ndim; d++) {
        box.first[d] = cut->first[d];
        box.n[d] = cut->n[d];
    }
    return box;
}

/* The cache of a loader that has one is that of this rank's tile and stage, which read boxes of their own. */
static lk_status cache_set(const lk_trainer *t, lk_loader *loader, bool on)
{
    const lk_plan *p = t->plan;
    char rank[32] = "0", size[96] = "1";
    size_t n = 1;
    if (on && p->tiling && p->tiling->size > 1) {
        snprintf(rank, sizeof rank, "%d", p->tiling->rank);
        n = 0;
        for (int d = 0; d < p->tiling->ndim; d++)
            n += (size_t)snprintf(size + n, sizeof size - n, "%s%d", d ? "x" : "",
                                  p->tiling->grid.dim[d]);
    }
    if (on && p->stages > 1) {
        size_t r = strlen(rank);
        snprintf(rank + r, sizeof rank - r, ".%lld", (long long)p->stage);
        snprintf(size + n, sizeof size - n, ".%lld", (long long)p->stages);
    }
    return LK_TRACE(lk_loader_set_cache(loader, NULL, rank, size));
}

/* Of a field that this rank's stage does not take, nothing; one without axes is a number. */
static lk_status stages_set_boxes(const lk_trainer *t, lk_loader *loader, bool on)
{
    const lk_dataset *set = lk_loader_dataset(loader);
    int field[] = {lk_dataset_find(set, "x"), lk_dataset_find(set, "y")};
    bool takes[] = {t->plan->stage == 0, t->plan->stage == t->plan->stages - 1};
    for (int i = 0; i < 2; i++) {
        if (field[i] < 0)
            continue;
        LK_TRY(lk_loader_set_box(loader, field[i], NULL));
        lk_box box = lk_loader_box(loader, field[i]);
        box.n[0] = 0;
        if (on && !takes[i] && box.ndim > 0)
            LK_TRY(lk_loader_set_box(loader, field[i], &box));
    }
    return LK_OK;
}

lk_status lk__pass_set_boxes(const lk_trainer *t, lk_loader *loader, bool on)
{
    const lk_dataset *set = lk_loader_dataset(loader);
    int x = lk_dataset_find(set, "x"), y = lk_dataset_find(set, "y");
    if (!t->plan)
        return LK_OK;
    if (t->plan->stages > 1)
        LK_TRY(stages_set_boxes(t, loader, on));
    if (!t->plan->tiling || t->plan->tiling->size == 1)
        return t->plan->stages > 1 ? LK_TRACE(cache_set(t, loader, on)) : LK_OK;
    if (x >= 0 && t->plan->stages == 1)
        LK_TRY(lk_loader_set_box(loader, x, NULL));
    if (y >= 0 && t->plan->stages == 1)
        LK_TRY(lk_loader_set_box(loader, y, NULL));
    if (on && x >= 0 && t->plan->in == LK_BY_TILE && t->plan->stage == 0) {
        lk_box box = field_box(loader, x, &t->plan->x.box);
        LK_TRY(lk_loader_set_box(loader, x, &box));
    }
    if (on && y >= 0 && t->plan->out == LK_BY_TILE && t->plan->stage == t->plan->stages - 1) {
        lk_box box = field_box(loader, y, &t->plan->loss->x.tile);
        LK_TRY(lk_loader_set_box(loader, y, &box));
    }
    return LK_TRACE(cache_set(t, loader, on));
}

lk_status lk__pass_compare(const lk_trainer *t, const char *what, lk_loader *loader)
{
    lk_comm *comm = lk__trainer_comm(t);
    bool names = loader->cache.path && loader != t->spec.train; /* which has them already */
    LK_TRY(lk_agree(comm, names ? lk__pass_set_boxes(t, loader, true) : LK_OK));
    lk_status st = lk__loader_compare_samples(comm, what, loader);
    if (names && st == LK_OK)
        st = lk__pass_set_boxes(t, loader, false);
    return LK_TRACE(st);
}

/* ---- the losses ---- */

bool lk__pass_has(const lk_trainer *t, const lk__summand *summand)
{
    const lk_plan *p = t->plan;
    if (summand->term < 0)
        return p->stage == p->stages - 1;
    return p->layer[t->spec.model->net->term[summand->term].instance].stage == p->stage;
}

bool lk__pass_is_tiled(const lk_trainer *t, const lk__summand *summand)
{
    const lk_plan *p = t->plan;
    if (summand->term < 0)
        return p->loss_tiled;
    return p->part && p->part[t->spec.model->net->term[summand->term].instance].term;
}

int64_t lk__pass_leaves(const lk_trainer *t, const lk__summand *summand)
{
    return lk__pass_is_tiled(t, summand) ? lk_tiling_leaves(t->plan->tiling) : 1;
}

/* All features of what comes out, for metrics: backward knows nothing of it. */
static lk_status features_gather(const lk_trainer *t, int64_t n, lk_var *out)
{
    bool recorded = lk_tape_set_recording(out->tape, false);
    lk_status st = lk_dist_feature_gather(t->plan->split, *out, n, "metrics", out);
    (void)lk_tape_set_recording(out->tape, recorded);
    return LK_TRACE(st);
}

/* The loss of what comes out, of whose features this rank has some, and what metrics count of it. */
static lk_status split_loss(const lk_trainer *t, lk__counts *counts, lk_var out, lk_var y,
                            lk_var *loss)
{
    const lk_plan *p = t->plan;
    int64_t n = t->out.shape.dim[t->out.shape.ndim - 1];
    lk_var place = LK_NO_VAR;
    LK_TRY(t->loss->apply_split(t->options.loss.options, p->split, n, out, y, loss));
    if (p->spec.places)
        LK_TRY(lk_dist_feature_places(p->split, n, out, y, "metrics", &place));
    if (p->spec.measures)
        LK_TRY(features_gather(t, n, &out));
    return LK_TRACE(lk__counts_add(t, counts, out, place, y));
}

/* Loss number `leaf` of what comes out: of the tile of both, if there are tiles. */
static lk_status out_loss(const lk_trainer *t, const lk__pass_out *pass, int64_t leaf, lk_var *loss)
{
    const lk_tile *tile = t->plan->loss_tiled ? t->plan->loss : NULL;
    lk_var out = pass->out, y = pass->y;
    if (tile) {
        bool cut = t->plan->out == LK_BY_TILE;
        LK_TRY(lk__box_take(out, &tile->x.box, &tile->x_leaf[leaf], &out));
        LK_TRY(lk__box_take(y, cut ? &tile->x.tile : &tile->x.box, &tile->x_leaf[leaf], &y));
        LK_TRY(lk_contiguous(y, &y));
    }
    if (t->plan->out_cut) {
        return LK_TRACE(split_loss(t, pass->counts, out, y, loss));
    }
    LK_TRY(t->loss->apply(t->options.loss.options, out, y, loss));
    return LK_TRACE(lk__counts_add(t, pass->counts, out, LK_NO_VAR, y));
}

lk_status lk__pass_take(const lk_trainer *t, const lk__pass_out *pass, int64_t *n)
{
    *n = 0;
    for (int64_t i = 0; i < t->n_summands; i++) {
        const lk__summand *s = &t->summand[i];
        int64_t leaves = lk__pass_has(t, s) ? lk__pass_leaves(t, s) : 0;
        for (int64_t k = 0; k < leaves; k++) {
            lk_var loss = LK_NO_VAR;
            if (s->term < 0)
                LK_TRY(out_loss(t, pass, k, &loss));
            else
                loss = t->terms.value[s->term * t->terms.leaves + k];
            if (pass->accumulator)
                LK_TRY(lk__accumulator_add_term(pass->accumulator, s->term, k, loss));
            else
                LK_TRY(lk_item(loss, &s->own[pass->microbatch * leaves + k]));
            if (lk_needs_grad(loss)) /* not one of the data, or of what stays, alone */
                pass->seeds[(*n)++] = (lk_seed){loss, s->seed};
        }
    }
    return LK_OK;
}
