/* Passes of a trainer: what of the samples goes in on this rank, and the loss of what comes out.
 *
 * A rank has whole samples, all of the pass or those that it owns among the ranks along space; or its box
 * of each (plan.h: in, out).  The loss is that of the samples it has, or where it is tiled one for each of
 * its tiles.  The step and evaluation call this, on the trainer's thread.
 */
#include "train/pass.h"

#include "data/loader.h"
#include "train/same.h"

#include <stdio.h>
#include <string.h>

/* ---- what goes in ---- */

static lk_status fields_check(const lk_batch *batch)
{
    LK_CHECK(batch->x && batch->y, LK_EINVAL, "%s",
             batch->n_fields > 0 ? "the data has no field \"y\" to learn"
                                 : "the data is empty: samples without x and y, nothing can be "
                                   "computed of them");
    return LK_OK;
}

/* The samples of a tensor that this rank has, as a variable. */
static lk_status samples_enter(lk_tape *tape, const lk_pass_parts *parts, lk_domain domain,
                               lk_tensor *whole, lk_var *out)
{
    lk_tensor *own = NULL;
    if (!parts || !parts->samples || domain == LK_BY_TILE) {
        LK_TRY(lk_constant(tape, whole, out));
        return LK_OK;
    }
    int64_t first = parts->samples[parts->rank], end = parts->samples[parts->rank + 1];
    LK_TRY(lk_tensor_slice(whole, 0, first, end, 1, &own));
    lk_status st = lk_constant(tape, own, out);
    lk_tensor_free(own);
    LK_TRY(st);
    return LK_OK;
}

lk_status lk__pass_enter(const lk_trainer *t, lk_tape *tape, const lk_pass_parts *parts,
                         const lk_batch *batch, lk_var *x, lk_var *y)
{
    lk_domain in = t->plan ? t->plan->in : LK_BY_SAMPLE, out = t->plan ? t->plan->out : in;
    LK_TRY(fields_check(batch));
    LK_TRY(samples_enter(tape, parts, in, batch->x, x));
    LK_TRY(samples_enter(tape, parts, out, batch->y, y));
    return LK_OK;
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

/* The cache of a loader that has one is that of this rank's tile. */
static lk_status cache_set(const lk_trainer *t, lk_loader *loader, bool on)
{
    const lk_tiling *tiling = t->plan->tiling;
    char rank[16] = "0", size[64] = "1";
    size_t n = 0;
    if (on)
        snprintf(rank, sizeof rank, "%d", tiling->rank);
    for (int d = 0; on && d < tiling->ndim; d++)
        n += (size_t)snprintf(size + n, sizeof size - n, "%s%d", d ? "x" : "", tiling->grid.dim[d]);
    LK_TRY(lk_loader_set_cache(loader, NULL, rank, size));
    return LK_OK;
}

lk_status lk__pass_set_boxes(const lk_trainer *t, lk_loader *loader, bool on)
{
    const lk_dataset *set = lk_loader_dataset(loader);
    int x = lk_dataset_find(set, "x"), y = lk_dataset_find(set, "y");
    if (!t->plan || !t->plan->tiling || t->plan->tiling->size == 1)
        return LK_OK;
    if (x >= 0)
        LK_TRY(lk_loader_set_box(loader, x, NULL));
    if (y >= 0)
        LK_TRY(lk_loader_set_box(loader, y, NULL));
    if (on && x >= 0 && t->plan->in == LK_BY_TILE) {
        lk_box box = field_box(loader, x, &t->plan->x.box);
        LK_TRY(lk_loader_set_box(loader, x, &box));
    }
    if (on && y >= 0 && t->plan->out == LK_BY_TILE) {
        lk_box box = field_box(loader, y, &t->plan->loss->x.tile);
        LK_TRY(lk_loader_set_box(loader, y, &box));
    }
    LK_TRY(cache_set(t, loader, on));
    return LK_OK;
}

lk_status lk__pass_compare(const lk_trainer *t, const char *what, lk_loader *loader)
{
    lk_comm *comm = lk__trainer_comm(t);
    bool names = loader->cache.path && loader != t->spec.train; /* which has them already */
    LK_TRY(lk_agree(comm, names ? lk__pass_set_boxes(t, loader, true) : LK_OK));
    lk_status st = lk__loader_compare_samples(comm, what, loader);
    if (names && st == LK_OK)
        st = lk__pass_set_boxes(t, loader, false);
    LK_TRY(st);
    return LK_OK;
}

/* ---- the loss ---- */

int64_t lk__pass_losses(const lk_trainer *t)
{
    return t->plan && t->plan->loss_tiled ? t->plan->loss->leaves : 1;
}

/* Box `part` of a value [samples][box...][...]. */
static lk_status box_take(lk_var x, const lk_box *box, const lk_box *part, lk_var *out)
{
    *out = x;
    for (int d = 0; d < box->ndim; d++) {
        int64_t first = part->n[d] > 0 ? part->first[d] - box->first[d] : 0;
        LK_TRY(lk_slice(*out, d + 1, first, first + part->n[d], 1, out));
    }
    return LK_OK;
}

lk_status lk__pass_loss(const lk_trainer *t, int64_t leaf, lk_var *out, lk_var *y, lk_var *loss)
{
    const lk_tile *tile = t->plan && t->plan->loss_tiled ? t->plan->loss : NULL;
    if (tile) {
        bool cut = t->plan->out == LK_BY_TILE;
        LK_TRY(box_take(*out, &tile->x.box, &tile->x_leaf[leaf], out));
        LK_TRY(box_take(*y, cut ? &tile->x.tile : &tile->x.box, &tile->x_leaf[leaf], y));
        LK_TRY(lk_contiguous(*y, y));
    }
    LK_TRY(t->loss->apply(t->options.loss.options, *out, *y, loss));
    return LK_OK;
}
