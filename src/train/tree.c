/* The sums of a block piece by piece, for models that use a parameter more than once: there the
 * contributions of a piece to its gradients must be added up before pieces are joined (partials.h). */
#include "train/trainer.h"

#include <string.h>

static lk_status chain_join(void **chain, int n)
{
    for (int i = 1; i < n; i++)
        LK_TRY(lk_accumulator_add(chain[i], chain[i - 1]));
    return LK_OK;
}

/* Add t->spare, the sums of the next piece. */
static lk_status push(lk_trainer *t)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_chain(&t->pieces, t->spare, chain);
    LK_TRY(chain_join(chain, n));
    if (n == 1) {
        lk_accumulator *free = t->pieces.level[0];
        t->pieces.level[0] = t->spare;
        t->spare = free;
    }
    lk__partials_carry(&t->pieces);
    if (!t->spare)
        LK_TRY(lk_accumulator_new(t->spec.model, &t->spare));
    return LK_OK;
}

/* Join what waits: the sum of all pieces. */
static lk_status finish(lk_trainer *t, const lk_accumulator **out)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_rest(&t->pieces, chain);
    LK_TRY(chain_join(chain, n));
    *out = n > 0 ? chain[n - 1] : NULL;
    return LK_OK;
}

lk_status lk__tree_sums(lk_trainer *t, const lk_batch *block, lk_accumulator *to,
                        lk_step_seconds *time)
{
    int64_t piece = lk_loader_shard(t->spec.train);
    const lk_accumulator *sum = NULL;
    t->pieces.n = 0;
    if (!t->spare)
        LK_TRY(lk_accumulator_new(t->spec.model, &t->spare));
    for (int64_t first = 0; first < block->n; first += piece) {
        lk_batch part;
        int64_t n = block->n - first < piece ? block->n - first : piece;
        lk_accumulator_begin(t->spare);
        LK_TRY(lk__batch_part(block, first, n, &part));
        lk_status st = lk__block_pass(t, &part, t->spare, time);
        lk_tensor_free(part.x);
        lk_tensor_free(part.y);
        LK_TRY(st);
        LK_TRY(push(t));
    }
    LK_TRY(finish(t, &sum));
    memcpy(lk_slab_data(lk_accumulator_slab(to)), lk_slab_data(lk_accumulator_slab(sum)),
           (size_t)lk_accumulator_bytes(t->spec.model));
    return LK_OK;
}
