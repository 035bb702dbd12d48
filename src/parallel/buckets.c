/* Buckets: gradients that travel while backward goes on.  A gradient hook on the trainer's tape starts
 * them, on its thread; lk__groups_finish_overlap() waits for them.
 *
 *     slab      | conv1.weight | conv1.bias | fc1.weight    | fc2.weight | fc2.bias | stats    |
 *     buckets   |       2                   |      1        |          0                       |
 *
 * Backward completes the last parameters first; the statistics of the batch go with them, and so do the
 * gradients of further uses of shared parameters.  A bucket starts when all its gradients are complete
 * and those before it have started, so that all ranks start them in the same order.  Where the run is
 * cut into tiles there are none: gradients of tiles are joined behind backward.
 */
#include "nn/model.h"
#include "parallel/groups_internal.h"

static const lk__grad_group *group_of(const lk__groups *g, int64_t element)
{
    int i = 0;
    while (i < g->n_groups - 1 && element >= g->group[i].elements.first + g->group[i].elements.n)
        i++;
    return &g->group[i];
}

int64_t lk__buckets_cut(const lk_model *model, int64_t joined, int64_t bytes, const lk__groups *g,
                        lk__bucket *out)
{
    lk_slab_layout *layout = lk_slab_layout_of(lk_model_params(model));
    int64_t end = joined, n = 0;
    lk__bucket b = {.first = end, .slices = lk__model_further_uses(model)};
    for (int64_t i = lk_slab_layout_slices(layout) - 1; i >= 0; i--) {
        lk_slab_slice slice;
        if (lk_slab_layout_slice(layout, i, &slice) != LK_OK)
            return 0;
        int64_t elem = (int64_t)lk_dtype_size(slice.dtype);
        b.first = slice.offset / elem;
        b.slices++;
        b.n = end - b.first;
        b.group = g ? group_of(g, b.first) : NULL;
        if (b.n * elem < bytes && b.first > (g ? b.group->elements.first : 0))
            continue;
        if (out)
            out[n] = b;
        n++;
        end = b.first;
        b = (lk__bucket){.first = end};
    }
    return n;
}

lk_status lk__buckets_make(lk__groups *g)
{
    int64_t bytes = g->plan->spec.bucket_bytes;
    g->n_buckets = (int)lk__buckets_cut(g->model, g->joined, bytes, g, NULL);
    LK_TRY(lk_alloc_zero(&g->bucket, g->n_buckets, sizeof *g->bucket));
    (void)lk__buckets_cut(g->model, g->joined, bytes, g, g->bucket);
    return LK_OK;
}

/* Start the buckets whose turn it is; `all`: complete or not, because backward has ended. */
static lk_status start(lk__groups *g, bool all)
{
    for (; g->n_started < g->n_buckets; g->n_started++) {
        lk__bucket *b = &g->bucket[g->n_started];
        if (b->waits > 0 && !all)
            break;
        LK_TRY(lk__group_join(g, b->group, b->first, b->n, &b->joining));
    }
    return LK_OK;
}

/* Gradient hook: a gradient of the last micro-batch is complete. */
static lk_status on_leaf(void *arg, const lk_tensor *grad)
{
    lk__groups *g = arg;
    if (!g->bucket)
        return lk__pending_sums_advance(g);
    const char *slab = lk_slab_data(lk_accumulator_slab(g->accumulator[g->n_microbatches - 1]));
    int64_t at = ((const char *)lk_tensor_data(grad) - slab) / (int64_t)lk_dtype_size(g->dtype);
    for (int b = 0; b < g->n_buckets; b++)
        if (at >= g->bucket[b].first && at < g->bucket[b].first + g->bucket[b].n)
            g->bucket[b].waits--;
    LK_TRY(start(g, false));
    for (int b = 0; b < g->n_started; b++)
        LK_TRY(lk__joining_advance(&g->bucket[b].joining));
    return LK_OK;
}

void lk__groups_overlap_backward(lk__groups *g, lk_tape *tape)
{
    if (!g->bucket && !g->pending.under_way)
        return;
    g->watched = tape;
    lk_tape_set_grad_hook(tape, on_leaf, g);
}

void lk__backward_unwatch(lk__groups *g)
{
    if (g->watched)
        lk_tape_set_grad_hook(g->watched, NULL, NULL);
    g->watched = NULL;
}

lk_status lk__buckets_end(lk__groups *g)
{
    lk_status first = start(g, true);
    for (int b = 0; b < g->n_buckets; b++) {
        lk_status st = lk__joining_end(g, &g->bucket[b].joining);
        first = first == LK_OK ? st : first;
    }
    return LK_TRACE(first);
}
