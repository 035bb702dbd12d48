/* Buckets: gradients that travel while backward goes on.
 *
 *     slab      | conv1.weight | conv1.bias | fc1.weight    | fc2.weight | fc2.bias | observed |
 *     buckets   |       2                   |      1        |          0                       |
 *
 * Backward completes the last parameters first; what forward observed goes with them.  A bucket starts when all its gradients are complete
 * and those before it have started, so that all ranks start them in the same order.
 */
#include "parallel/team.h"

/* Cut the slices, from the last to the first, into buckets of at least spec.bucket bytes; returns how
 * many.  `out` may be NULL. */
static int cut(const lk_team *t, lk__bucket *out)
{
    lk_layout *layout = lk_slab_layout(lk_model_params(t->spec.model));
    int64_t elem = (int64_t)lk_dtype_size(t->dtype), end = t->joined;
    lk__bucket b = {.first = end};
    int n = 0;
    for (int64_t i = lk_layout_slices(layout) - 1; i >= 0; i--) {
        lk_slab_slice slice;
        if (lk_layout_get(layout, i, &slice) != LK_OK)
            return 0;
        b.first = slice.offset / elem;
        b.slices++;
        b.n = end - b.first;
        if (b.n * elem < t->spec.bucket && i > 0)
            continue;
        if (out)
            out[n] = b;
        n++;
        end = b.first;
        b = (lk__bucket){.first = end};
    }
    return n;
}

lk_status lk__buckets_make(lk_team *t)
{
    t->n_buckets = cut(t, NULL);
    LK_TRY(lk_alloc_zero(&t->bucket, t->n_buckets, sizeof *t->bucket));
    (void)cut(t, t->bucket);
    return LK_OK;
}

void lk__buckets_free(lk_team *t)
{
    lk_free(t->bucket);
}

void lk__buckets_begin(lk_team *t)
{
    t->n_started = 0;
    for (int b = 0; b < t->n_buckets; b++)
        t->bucket[b].waits = t->bucket[b].slices;
}

/* Start the buckets whose turn it is; `all`: complete or not, because backward has ended. */
static lk_status start(lk_team *t, bool all)
{
    for (; t->n_started < t->n_buckets; t->n_started++) {
        lk__bucket *b = &t->bucket[t->n_started];
        if (b->waits > 0 && !all)
            break;
        LK_TRY(lk__team_join(t, b->first, b->n, "gradients", &b->request));
    }
    return LK_OK;
}

/* Let what travels go on. */
static lk_status advance(lk_team *t)
{
    for (int b = 0; b < t->n_started; b++) {
        bool done;
        if (t->bucket[b].request)
            LK_TRY(lk_test(&t->bucket[b].request, &done, NULL));
    }
    return LK_OK;
}

/* A gradient of the last block is complete. */
static lk_status on_leaf(void *arg, const lk_tensor *grad)
{
    lk_team *t = arg;
    const char *slab = lk_slab_data(lk_sums_slab(t->sums[t->n_nodes - 1]));
    int64_t at = ((const char *)lk_tensor_data(grad) - slab) / (int64_t)lk_dtype_size(t->dtype);
    for (int b = 0; b < t->n_buckets; b++)
        if (at >= t->bucket[b].first && at < t->bucket[b].first + t->bucket[b].n)
            t->bucket[b].waits--;
    LK_TRY(start(t, false));
    LK_TRY(advance(t));
    return LK_OK;
}

void lk_team_watch(lk_team *t, lk_tape *tape)
{
    if (!t->bucket)
        return;
    t->watched = tape;
    lk_tape_on_leaf(tape, on_leaf, t);
}

lk_status lk__buckets_end(lk_team *t)
{
    lk_status first;
    if (t->watched)
        lk_tape_on_leaf(t->watched, NULL, NULL);
    t->watched = NULL;
    first = start(t, true);
    for (int b = 0; b < t->n_buckets; b++) {
        lk_status st = lk_wait(&t->bucket[b].request, NULL);
        first = first == LK_OK ? st : first;
    }
    LK_TRY(first);
    return LK_OK;
}
