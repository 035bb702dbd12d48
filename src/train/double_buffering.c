/* What double buffering adds to the state of a run: the sums of the last batch, which the next step follows.
 *
 * t->pending has a copy of them while a state is hashed, saved or loaded: gradients, those of further uses
 * of shared parameters, and statistics of the batch.  They are joined then, so all ranks have the same, and
 * they are those of any number of ranks.  The trainer calls it, on its thread.
 */
#include "nn/model.h"
#include "train/trainer.h"

/* The slices of an accumulator that are joined, without those of tiles, which are in them by then. */
static lk_status layout_make(const lk_model *model, lk_slab_layout **out)
{
    lk_slab_layout *all = NULL;
    lk_status st;
    int64_t n = 0;
    LK_TRY(lk_slab_layout_new(out));
    LK_TRY(lk__accumulator_layout(model, NULL, &all));
    LK_TRY_TO(done, lk_slab_layout_find(all, "loss", &n));
    for (int64_t i = 0; i < n; i++) {
        lk_slab_slice slice;
        LK_TRY_TO(done, lk_slab_layout_slice(all, i, &slice));
        LK_TRY_TO(done, lk_slab_layout_add(*out, slice.name, slice.dtype, slice.shape));
    }
done:
    lk_slab_layout_free(all);
    return LK_TRACE(st);
}

lk_status lk__pending_state_make(lk_trainer *t)
{
    lk_slab_layout *layout = NULL;
    if (!t->spec.parallel.double_buffering)
        return LK_OK;
    lk_status st = layout_make(t->spec.model, &layout);
    if (st == LK_OK)
        st = lk_slab_new(layout, &t->pending);
    lk_slab_layout_free(layout);
    return LK_TRACE(st);
}

int64_t lk__pending_shards(const lk_trainer *t)
{
    int64_t shards;
    return lk__groups_pending(t->groups, &shards) ? shards : 0;
}

lk_status lk__pending_load(lk_trainer *t, int64_t shards)
{
    if (!t->pending)
        return LK_OK;
    const lk_plan_spec *spec = &t->plan->spec; /* in fast mode shards are the ranks that saved */
    int64_t most = spec->fast ? spec->batch : spec->shards;
    LK_CHECK(shards >= 0 && shards <= most, LK_EIO,
             "the sums that are pending are of a batch of %lld shards; there are at most %lld",
             (long long)shards, (long long)most);
    return LK_TRACE(lk__groups_load_pending(t->groups, t->pending, shards));
}
