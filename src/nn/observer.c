/* What forward adds up: statistics of the batch, the loss and those of terms.  It is the end of each
 * accumulator's slab; an observer is an accumulator that has nothing else.
 *
 * accumulator.c asks for its layout.  A pipeline makes an observer for each of its tapes, because gradients of
 * a pass get their place when backward begins; all on the trainer's thread.
 */
#include "nn/model.h"

#include <lockstep/autograd.h>
#include <lockstep/extra/map.h>

#include <stdio.h>

lk_status lk__slices_like(const lk_slab *slab, const char *prefix, lk_slab_layout *layout)
{
    lk_slab_slice slice;
    char name[320];
    for (int64_t i = 0; i < lk_slab_layout_slices(lk_slab_layout_of(slab)); i++) {
        LK_TRY(lk_slab_layout_slice(lk_slab_layout_of(slab), i, &slice));
        snprintf(name, sizeof name, "%s%s", prefix, slice.name);
        LK_TRY(lk_slab_layout_add_box(layout, name, slice.dtype, slice.shape, slice.box_of,
                                      &slice.box));
    }
    return LK_OK;
}

/* Losses that are added up apart. */
static int64_t losses_of(const lk__leaves *leaves)
{
    return leaves && leaves->loss ? leaves->n : 1;
}

/* The losses of a term that are added up apart. */
static int64_t term_losses(const lk__net *net, const lk__leaves *leaves, int64_t term)
{
    bool tiled = leaves && leaves->n > 0 && leaves->parts[net->term[term].instance].term;
    return tiled ? leaves->n : 1;
}

/* Those of all terms. */
static int64_t terms_losses(const lk__net *net, const lk__leaves *leaves)
{
    int64_t n = 0;
    for (int64_t i = 0; i < net->n_terms; i++)
        n += term_losses(net, leaves, i);
    return n;
}

lk_status lk__observed_layout(const lk__net *net, const lk__leaves *leaves, lk_slab_layout *layout)
{
    LK_TRY(lk__slices_like(net->state, "batch_stats.", layout));
    LK_TRY(lk_slab_layout_add(layout, "loss", net->spec.dtype, LK_SHAPE(losses_of(leaves))));
    if (net->n_terms > 0)
        LK_TRY(lk_slab_layout_add(layout, "terms", net->spec.dtype,
                                  LK_SHAPE(terms_losses(net, leaves))));
    return LK_OK;
}

/* The losses of terms, as slice number `slice`. */
static lk_status terms_make(const lk__net *net, const lk__leaves *leaves, int64_t slice,
                            lk_accumulator *accumulator)
{
    int64_t at = 0;
    if (net->n_terms == 0)
        return LK_OK;
    LK_TRY(lk_slab_tensor(accumulator->slab, slice, &accumulator->terms));
    LK_TRY(lk_alloc_zero(&accumulator->term_at, net->n_terms, sizeof *accumulator->term_at));
    for (int64_t i = 0; i < net->n_terms; i++) {
        accumulator->term_at[i] = at;
        at += term_losses(net, leaves, i);
    }
    return LK_OK;
}

lk_status lk__observed_make(const lk__net *net, const lk__leaves *leaves, int64_t first,
                            lk_accumulator *accumulator)
{
    int64_t largest = 0;
    if (leaves)
        accumulator->leaves = *leaves;
    LK_TRY(lk_slab_flat(accumulator->slab, &accumulator->flat));
    LK_TRY(lk_alloc_zero(&accumulator->each, net->n_uses, sizeof *accumulator->each));
    LK_TRY(lk_alloc_zero(&accumulator->each_of, net->n_uses, sizeof *accumulator->each_of));
    LK_TRY(lk__slab_tensors(accumulator->slab, first, net->n_state, &accumulator->batch_stats));
    LK_TRY(lk_slab_tensor(accumulator->slab, first + net->n_state, &accumulator->loss));
    LK_TRY(terms_make(net, leaves, first + net->n_state + 1, accumulator));
    LK_TRY(lk_alloc_zero(&accumulator->values, net->n_uses, sizeof *accumulator->values));
    for (int64_t i = 0; i < net->n_state; i++)
        if (lk_tensor_count(accumulator->batch_stats[i]) > largest)
            largest = lk_tensor_count(accumulator->batch_stats[i]);
    return LK_TRACE(lk_alloc_zero(&accumulator->scratch, largest, sizeof(double)));
}

int64_t lk__accumulator_loss_bytes(const lk_model *model, const lk__leaves *leaves)
{
    const lk__net *net = model->net;
    return lk__slice_bytes(net, losses_of(leaves)) +
           lk__slice_bytes(net, terms_losses(net, leaves));
}

/* ---- observers ---- */

static lk_status observer_make(const lk_model *model, const lk__leaves *leaves,
                               lk_slab_layout *layout, lk_accumulator *out)
{
    LK_TRY(lk__observed_layout(model->net, leaves, layout));
    LK_TRY(lk_slab_new(layout, &out->slab));
    return LK_TRACE(lk__observed_make(model->net, leaves, 0, out));
}

lk_status lk__observer_new(const lk_model *model, const lk__leaves *leaves, lk_accumulator **out)
{
    lk_accumulator *observer = NULL;
    lk_slab_layout *layout = NULL;
    *out = NULL;
    LK_TRY(lk__model_check_held(model));
    LK_TRY(lk_alloc_zero(&observer, 1, sizeof *observer));
    observer->model = model;
    lk_status st = lk_slab_layout_new(&layout);
    if (st == LK_OK)
        st = observer_make(model, leaves, layout, observer);
    lk_slab_layout_free(layout);
    if (st != LK_OK) {
        lk_accumulator_free(observer);
        LK_TRY(st);
    }
    *out = observer;
    return LK_OK;
}

lk_status lk__observer_give(lk_accumulator *observer, lk_accumulator *to)
{
    const lk__net *net = observer->model->net;
    for (int64_t i = 0; i < net->n_uses; i++) {
        lk_tensor *grad = to->leaf[i] ? to->leaf[i] : to->grad[i];
        if (!lk_is_var(observer->values[i]) && to->overwrite && lk_tensor_count(grad) > 0)
            LK_TRY(lk_tensor_fill_f64(grad, 0)); /* of a use that another stage has */
        else if (lk_is_var(observer->values[i]) && lk_needs_grad(observer->values[i]))
            LK_TRY(lk_leaf_set_grad(observer->values[i], grad, to->overwrite));
    }
    to->overwrite = false;
    char *tail = (char *)lk_slab_data(to->slab) + to->gradients;
    return LK_TRACE(lk_map2(net->spec.dtype, LK_MAP2_ADD, 0, lk_tensor_count(observer->flat), tail,
                            lk_slab_data(observer->slab), tail));
}

lk_status lk__observer_postpone(const lk_accumulator *observer)
{
    for (int64_t i = 0; i < observer->model->net->n_uses; i++)
        if (lk_is_var(observer->values[i]) && lk_needs_grad(observer->values[i]))
            LK_TRY(lk_leaf_postpone(observer->values[i]));
    return LK_OK;
}
