/* The gradients of a micro-batch shard by shard, for models that use a parameter more than once: there the
 * contributions of a shard must be added up before shards are joined (partials.h).  step.c calls it.
 */
#include "train/trainer.h"

#include <string.h>

static lk_status chain_join(void **chain, int n)
{
    for (int i = 1; i < n; i++)
        LK_TRY(lk_accumulator_add(chain[i], chain[i - 1]));
    return LK_OK;
}

/* Add t->spare, the accumulator of the next shard. */
static lk_status push(lk_trainer *t)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_chain(&t->partials, t->spare, chain);
    LK_TRY(chain_join(chain, n));
    if (n == 1) {
        lk_accumulator *free = t->partials.level[0];
        t->partials.level[0] = t->spare;
        t->spare = free;
    }
    lk__partials_carry(&t->partials);
    if (!t->spare)
        LK_TRY(lk_accumulator_new(t->spec.model, &t->spare));
    return LK_OK;
}

/* Join what waits: the sum of all shards. */
static lk_status finish(lk_trainer *t, const lk_accumulator **out)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_rest(&t->partials, chain);
    LK_TRY(chain_join(chain, n));
    *out = n > 0 ? chain[n - 1] : NULL;
    return LK_OK;
}

lk_status lk__shards_accumulate(lk_trainer *t, const lk_batch *batch, lk_accumulator *to,
                                lk_step_seconds *time)
{
    int64_t shard_size = lk_loader_shard_size(t->spec.train);
    const lk_accumulator *sum = NULL;
    t->partials.n = 0;
    if (!t->spare)
        LK_TRY(lk_accumulator_new(t->spec.model, &t->spare));
    for (int64_t first = 0; first < batch->n; first += shard_size) {
        lk_batch part;
        int64_t n = batch->n - first < shard_size ? batch->n - first : shard_size;
        lk_accumulator_begin(t->spare);
        LK_TRY(lk__batch_part(batch, first, n, &part));
        lk_status st = lk__microbatch_pass(t, &part, t->spare, time);
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
