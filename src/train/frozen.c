/* Which parameters a trainer moves: those of the layers that its options name, or else those that the
 * program has left to move (lk_model_train_layers()).  lk_trainer_new() calls it once the layers have
 * names, on each rank; the marks on the model end with the trainer. */
#include "nn/model.h"
#include "train/trainer.h"

static int64_t params_of(const lk_model *model)
{
    return lk_slab_layout_slices(lk_model_layout(model));
}

static bool any_moves(const lk_model *model)
{
    int64_t i = 0, n = params_of(model);
    while (i < n && !lk_model_param_moves(model, i))
        i++;
    return i < n;
}

lk_status lk__frozen_make(lk_trainer *t)
{
    const lk_option_names *names = &t->options.layers;
    lk_model *model = t->spec.model;
    LK_CHECK(model || names->n == 0, LK_ENOTSUP,
             "layers: a chain list moves all parameters of its models");
    if (!model)
        return LK_OK;
    const char *name[LK_OPTION_MAX_ITEMS];
    for (int i = 0; i < names->n; i++)
        name[i] = names->item[i];
    if (names->n > 0)
        LK_TRY(lk_model_train_layers(model, name, names->n));
    int64_t n = params_of(model);
    LK_CHECK(n == 0 || any_moves(model), LK_EINVAL,
             "none of the layers that are to move has parameters, so there is nothing to train");
    LK_TRY(lk_alloc_zero(&t->frozen, 2 * n, sizeof *t->frozen));
    t->moves = t->frozen + n;
    for (int64_t i = 0; i < n; i++) {
        t->moves[i] = lk_model_param_moves(model, i);
        t->frozen[i] = !t->moves[i];
        t->has_frozen = t->has_frozen || t->frozen[i];
    }
    return LK_OK;
}

void lk__frozen_free(lk_trainer *t)
{
    if (t->frozen && t->options.layers.n > 0)
        (void)!lk_model_train_layers(t->spec.model, NULL, 0);
    lk_free(t->frozen);
}
