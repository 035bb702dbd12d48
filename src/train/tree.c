/* The sums of a block piece by piece, for models that use a parameter more than once: there the
 * contributions of a piece to its gradients must be added up before pieces are joined.
 *
 *     pieces     0   1   2   3   4
 *                 \ /     \ /    |
 *                  +       +     |         level[k] holds the sum of 2^k pieces that waits for its
 *                    \   /       |         right neighbour
 *                      +    +    +
 */
#include "train/trainer.h"

#include <string.h>

/* Put t->spare, the sum of the next piece, into the tree that has `pieces` so far. */
static lk_status push(lk_trainer *t, int64_t pieces)
{
    int level = 0;
    for (; pieces % 2; pieces /= 2, level++) {
        lk_sums *later = t->spare;
        LK_TRY(lk_sums_join(t->level[level], later));
        t->spare = t->level[level];
        t->level[level] = later;
    }
    lk_sums *free = t->level[level];
    t->level[level] = t->spare;
    t->spare = free;
    if (!t->spare)
        LK_TRY(lk_sums_new(t->spec.model, &t->spare));
    return LK_OK;
}

/* Join what waits: the sum of all `pieces`. */
static lk_status finish(lk_trainer *t, int64_t pieces, const lk_sums **out)
{
    lk_sums *sum = NULL;
    for (int level = 0; pieces >> level; level++) {
        if (!((pieces >> level) % 2))
            continue;
        if (sum)
            LK_TRY(lk_sums_join(t->level[level], sum));
        sum = t->level[level];
    }
    *out = sum;
    return LK_OK;
}

lk_status lk__tree_sums(lk_trainer *t, const lk_batch *block, lk_sums *to, lk_step_time *time)
{
    int64_t piece = lk_loader_piece(t->spec.train), pieces = 0;
    const lk_sums *sum = NULL;
    if (!t->spare)
        LK_TRY(lk_sums_new(t->spec.model, &t->spare));
    for (int64_t first = 0; first < block->n; first += piece, pieces++) {
        lk_batch part;
        int64_t n = block->n - first < piece ? block->n - first : piece;
        lk_sums_begin(t->spare);
        LK_TRY(lk__batch_part(block, first, n, &part));
        lk_status st = lk__block_pass(t, &part, t->spare, time);
        lk_tensor_free(part.x);
        lk_tensor_free(part.y);
        LK_TRY(st);
        LK_TRY(push(t, pieces));
    }
    LK_TRY(finish(t, pieces, &sum));
    memcpy(lk_slab_data(lk_sums_slab(to)), lk_slab_data(lk_sums_slab(sum)),
           (size_t)lk_sums_bytes(t->spec.model));
    return LK_OK;
}
