/* Which parameters a trainer moves: of the layers that its options name, or else of those that the program
 * has left to move (lk_model_train_layers()), the ones that run for the losses that count.
 * lk_trainer_new() calls it when these are known, on each rank; the marks on the model end with the trainer.
 */
#include "nn/model.h"
#include "train/trainer.h"

/* Mark the layers that stay. */
static lk_status layers_mark(lk_trainer *t)
{
    const lk_option_names *names = &t->options.layers;
    lk_model *model = t->spec.model;
    const char *name[LK_OPTION_MAX_ITEMS];
    bool *runs = NULL;
    for (int i = 0; i < names->n; i++)
        name[i] = names->item[i];
    LK_TRY(lk_arena_alloc(t->arena, &runs, lk_model_layers(model), sizeof *runs));
    lk__model_runs(model, t->terms.counts, t->counts_loss, runs);
    bool freezes = names->n > 0;
    for (int64_t i = 0; i < lk_model_layers(model); i++)
        freezes = freezes || !runs[i];
    LK_CHECK(!freezes || model->trainers == 1, LK_ESTATE,
             "the model is trained by another trainer as well, and layers are frozen for one at a "
             "time: free that first, or leave out `layers` and `losses`");
    if (names->n > 0)
        LK_TRY(lk_model_train_layers(model, name, names->n));
    lk__model_freeze_idle(model, runs);
    return LK_OK;
}

lk_status lk__frozen_make(lk_trainer *t)
{
    lk_model *model = t->spec.model;
    LK_CHECK(model || t->options.layers.n == 0, LK_ENOTSUP,
             "layers: a chain list moves all parameters of its models");
    if (!model)
        return LK_OK;
    LK_TRY(lk_arena_alloc(t->arena, &t->marks, lk__model_marks(model), sizeof *t->marks));
    lk__model_get_marks(model, t->marks);
    LK_TRY(layers_mark(t));
    int64_t n = lk_slab_layout_slices(lk_model_layout(model)), moving = 0;
    LK_TRY(lk_arena_alloc(t->arena, &t->frozen, n, sizeof *t->frozen));
    for (int64_t i = 0; i < n; i++) {
        t->frozen[i] = !lk_model_param_moves(model, i);
        moving += !t->frozen[i];
    }
    t->has_frozen = moving < n;
    LK_CHECK(t->options.layers.n == 0 || moving > 0, LK_EINVAL,
             "none of the layers that are to move has parameters and runs for the losses that "
             "count, so there is nothing to train");
    return LK_OK;
}

void lk__frozen_free(lk_trainer *t)
{
    if (t->marks)
        lk__model_set_marks(t->spec.model, t->marks);
}
