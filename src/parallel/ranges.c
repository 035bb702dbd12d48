/* Ranges of an accumulator's slab: who has added up what of it, and so with whom it is joined.
 *
 * plan.c counts them before anything moves, groups.c joins by them; both on the trainer's thread.  It
 * is arithmetic on plan and model.
 */
#include "parallel/groups_internal.h"
#include "parallel/pipeline/stages.h"

/* A slice of an accumulator's slab: how it is joined, and how many elements the plan's rank has of it, which may be
 * fewer than the model's where another rank is planned. */
typedef struct slice_share {
    lk__share share;
    int64_t here;
} slice_share;

/* Elements of a slice that has some, with the gap behind them. */
static int64_t slice_elements(const lk__net *net, int64_t elements)
{
    return lk__slice_bytes(net, elements) / (int64_t)lk_dtype_size(net->spec.dtype);
}

static bool is_by_tile(const lk_plan *p, int64_t instance)
{
    return p->part && p->part[instance].by_tile;
}

/* Of each slice of an accumulator's slab: gradients, those of further uses, leaves, statistics, the loss. */
static void shares_find(const lk_plan *p, const lk_model *model, slice_share *share)
{
    const lk__net *net = model->net;
    lk__leaves leaves = lk__plan_leaves(p);
    int64_t leaf = net->n_params + net->n_extra, state;
    for (int64_t i = 0; i < net->n_uses; i++) {
        const lk__param_use *use = &net->use[i];
        slice_share *own = &share[use->extra < 0 ? use->param : net->n_params + use->extra];
        int64_t elements = p->param_elements[use->param], n = lk__use_leaves(model, &leaves, i);
        own->here = slice_elements(net, elements);
        own->share = is_by_tile(p, use->instance) ? LK__BY_REPLICA : LK__BY_SAMPLES;
        if (n > 0) {
            own->share = LK__SUMMED;
            share[leaf++] = (slice_share){LK__BY_LEAF, slice_elements(net, n * elements)};
        }
    }
    state = leaf;
    for (int64_t i = 0; i < net->n_instances; i++)
        for (int k = 0; k < net->instance[i].n_state; k++) {
            int64_t at = net->instance[i].state + k;
            share[state + at] = (slice_share){
                is_by_tile(p, i) ? LK__BY_REPLICA : LK__BY_SAMPLES,
                slice_elements(net, lk__plan_state_elements(p, model, at))};
        }
}

/* Slices [0, slices) of a layout, those behind each other with one share as one range. */
static lk_status ranges_join(const lk_slab_layout *layout, const slice_share *share, int64_t slices,
                             lk__grad_group *group, int *n)
{
    lk_slab_slice slice;
    for (int64_t i = 0; i < slices; i++) {
        LK_TRY(lk_slab_layout_slice(layout, i + 1, &slice));
        int64_t end = slice.offset / (int64_t)lk_dtype_size(slice.dtype);
        lk__grad_group *last = *n > 0 ? &group[*n - 1] : NULL;
        int64_t begin = last ? last->elements.first + last->elements.n : 0;
        if (last && last->share == share[i].share)
            last->elements.n += end - begin;
        else
            group[(*n)++] = (lk__grad_group){{begin, end - begin}, .share = share[i].share};
        group[*n - 1].here += share[i].here;
    }
    return LK_OK;
}

lk_status lk__ranges_make(const lk_plan *plan, const lk_model *model, lk__grad_group **out, int *n)
{
    lk__leaves leaves = lk__plan_leaves(plan);
    lk_slab_layout *layout = NULL;
    slice_share *share = NULL;
    lk_status st;
    *out = NULL;
    *n = 0;
    LK_TRY(lk__accumulator_layout(model, &leaves, &layout));
    int64_t slices = 0;
    LK_TRY_TO(done, lk_slab_layout_find(layout, "loss", &slices)); /* it and terms stay */
    LK_TRY_TO(done, lk_alloc_zero(out, slices + 1, sizeof **out));
    LK_TRY_TO(done, lk_alloc_zero(&share, slices + 1, sizeof *share));
    shares_find(plan, model, share);
    LK_TRY_TO(done, ranges_join(layout, share, slices, *out, n));
done:
    lk_free(share);
    lk_slab_layout_free(layout);
    return LK_TRACE(st);
}

lk_status lk__wire_elements_plan(const lk_plan *plan, const lk_model *model, int64_t *out)
{
    const lk__net *net = model->net;
    lk__leaves leaves = lk__plan_leaves(plan);
    lk_slab_layout *layout = NULL;
    *out = 0;
    if (plan->spec.wire == LK_WIRE_DTYPE)
        return LK_OK;
    LK_TRY(lk__accumulator_layout(model, &leaves, &layout));
    *out = lk__wire_elements_of(layout, net->n_params + net->n_extra);
    lk_slab_layout_free(layout);
    return LK_OK;
}

lk_status lk__wire_transfers(const lk_plan *plan, const lk_model *model, lk_transfer *gradients,
                             lk_transfer *scales)
{
    const lk__net *net = model->net;
    int64_t narrow, elem = (int64_t)lk_dtype_size(net->spec.dtype);
    *scales = (lk_transfer){LK_BEFORE_UPDATE,
                            LK_JOINED,
                            "scales of gradients",
                            gradients->ranks,
                            plan->spec.wire == LK_WIRE_F16,
                            (net->n_params + net->n_extra) * (int64_t)sizeof(int32_t)};
    LK_TRY(lk__wire_elements_plan(plan, model, &narrow));
    gradients->calls += narrow > 0 && gradients->bytes > narrow * elem;
    gradients->bytes -= narrow * (elem - (int64_t)sizeof(uint16_t));
    return LK_OK;
}

int64_t lk__leaf_sums_elements(const lk_plan *plan, const lk_model *model)
{
    lk__leaves leaves = lk__plan_leaves(plan);
    int64_t elements = 0;
    for (int64_t i = 0; i < lk__model_uses(model); i++)
        if (lk__use_leaves(model, &leaves, i) > 0)
            elements += plan->param_elements[model->net->use[i].param];
    return elements;
}
