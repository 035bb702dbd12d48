/* Buckets: gradients that travel while backward goes on.
 *
 *     slab      | conv1.weight | conv1.bias | fc1.weight    | fc2.weight | fc2.bias | observed |
 *     buckets   |       2                   |      1        |          0                       |
 *
 * Backward completes the last parameters first; what forward observed goes with them, and so do the
 * gradients of further uses of shared parameters.  A bucket starts
 * when all its gradients are complete and those before it have started, so that all ranks start them in
 * the same order.  It lies in one group, whose first level travels so; the others follow behind backward.
 */
#include "parallel/group.h"

/* Gradients that have no parameter of their own: of further uses, behind those that have. */
static int64_t further_uses(const lk__groups *g)
{
    return lk_layout_slices(lk_slab_layout(lk_sums_slab(g->sums[0]))) - 1 -
           lk_layout_slices(lk_slab_layout(lk_model_params(g->spec.model))) -
           lk_layout_slices(lk_slab_layout(lk_model_state(g->spec.model)));
}

static const lk__grad_group *group_of(const lk__groups *g, int64_t element)
{
    int i = 0;
    while (i < g->n_groups - 1 && element >= g->group[i].elements.first + g->group[i].elements.n)
        i++;
    return &g->group[i];
}

/* Cut the slices, from the last to the first, into buckets of at least spec.bucket bytes, and at the
 * borders of groups; returns how many.  `out` may be NULL. */
static int cut(const lk__groups *g, lk__bucket *out)
{
    lk_layout *layout = lk_slab_layout(lk_model_params(g->spec.model));
    int64_t elem = (int64_t)lk_dtype_size(g->dtype), end = g->joined;
    lk__bucket b = {.first = end, .slices = further_uses(g)};
    int n = 0;
    for (int64_t i = lk_layout_slices(layout) - 1; i >= 0; i--) {
        lk_slab_slice slice;
        if (lk_layout_get(layout, i, &slice) != LK_OK)
            return 0;
        b.first = slice.offset / elem;
        b.slices++;
        b.n = end - b.first;
        b.group = group_of(g, b.first);
        if (b.n * elem < g->spec.bucket && b.first > b.group->elements.first)
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
    g->n_buckets = cut(g, NULL);
    LK_TRY(lk_alloc_zero(&g->bucket, g->n_buckets, sizeof *g->bucket));
    (void)cut(g, g->bucket);
    return LK_OK;
}

void lk__buckets_free(lk__groups *g)
{
    lk_free(g->bucket);
}

void lk__buckets_begin(lk__groups *g)
{
    g->n_started = 0;
    for (int b = 0; b < g->n_buckets; b++)
        g->bucket[b].waits = g->bucket[b].slices;
}

/* Start the buckets whose turn it is; `all`: complete or not, because backward has ended. */
static lk_status start(lk__groups *g, bool all)
{
    for (; g->n_started < g->n_buckets; g->n_started++) {
        lk__bucket *b = &g->bucket[g->n_started];
        if (b->waits > 0 && !all)
            break;
        LK_TRY(lk__group_join(g, b->group, b->first, b->n, &b->request));
    }
    return LK_OK;
}

/* Let what travels go on. */
static lk_status advance(lk__groups *g)
{
    for (int b = 0; b < g->n_started; b++) {
        bool done;
        if (g->bucket[b].request)
            LK_TRY(lk_test(&g->bucket[b].request, &done, NULL));
    }
    return LK_OK;
}

/* A gradient of the last block is complete. */
static lk_status on_leaf(void *arg, const lk_tensor *grad)
{
    lk__groups *g = arg;
    const char *slab = lk_slab_data(lk_sums_slab(g->sums[g->n_nodes - 1]));
    int64_t at = ((const char *)lk_tensor_data(grad) - slab) / (int64_t)lk_dtype_size(g->dtype);
    for (int b = 0; b < g->n_buckets; b++)
        if (at >= g->bucket[b].first && at < g->bucket[b].first + g->bucket[b].n)
            g->bucket[b].waits--;
    LK_TRY(start(g, false));
    LK_TRY(advance(g));
    return LK_OK;
}

void lk__groups_watch(lk__groups *g, lk_tape *tape)
{
    if (!g->bucket)
        return;
    g->watched = tape;
    lk_tape_on_leaf(tape, on_leaf, g);
}

lk_status lk__buckets_end(lk__groups *g)
{
    lk_status first;
    if (g->watched)
        lk_tape_on_leaf(g->watched, NULL, NULL);
    g->watched = NULL;
    first = start(g, true);
    for (int b = 0; b < g->n_buckets; b++) {
        lk__bucket *one = &g->bucket[b];
        lk_status st = lk_wait(&one->request, NULL);
        if (st == LK_OK && first == LK_OK)
            st = lk__group_join_further(g, one->group, one->first, one->n);
        first = first == LK_OK ? st : first;
    }
    LK_TRY(first);
    return LK_OK;
}
