/* Sums over shards that are passes of their own, and the micro-batches of a model that needs them. */
#include "train/shards.h"

#include "train/trainer.h"

#include <string.h>

static lk_status chain_join(void **chain, int n)
{
    for (int i = 1; i < n; i++)
        LK_TRY(lk_accumulator_add(chain[i], chain[i - 1]));
    return LK_OK;
}

void lk__shard_sums_free(lk__shard_sums *s)
{
    for (int i = 0; i <= LK__LEVELS; i++)
        lk_accumulator_free(s->partials.level[i]);
    lk_accumulator_free(s->spare);
}

lk_status lk__shard_sums_next(lk__shard_sums *s, lk_accumulator **out)
{
    if (!s->spare)
        LK_TRY(lk__accumulator_new(s->model, &s->leaves, NULL, &s->spare));
    lk_accumulator_begin(s->spare);
    *out = s->spare;
    return LK_OK;
}

lk_status lk__shard_sums_push(lk__shard_sums *s)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_chain(&s->partials, s->spare, chain);
    LK_TRY(chain_join(chain, n));
    if (n == 1) {
        lk_accumulator *free = s->partials.level[0];
        s->partials.level[0] = s->spare;
        s->spare = free;
    }
    lk__partials_carry(&s->partials);
    return LK_OK;
}

lk_status lk__shard_sums_finish(lk__shard_sums *s, lk_accumulator *to)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_rest(&s->partials, chain);
    LK_TRY(chain_join(chain, n));
    memcpy(lk_slab_data(lk_accumulator_slab(to)), lk_slab_data(lk_accumulator_slab(chain[n - 1])),
           (size_t)lk__accumulator_bytes(s->model, &s->leaves));
    return LK_OK;
}

lk_status lk__shards_accumulate(lk_trainer *t, const lk_batch *batch, lk_accumulator *to,
                                lk_step_seconds *time)
{
    int64_t shard_size = lk_loader_shard_size(t->spec.train);
    if (batch->n == 0) { /* nothing for this replica in the last batch */
        lk_accumulator_clear(to);
        return LK_OK;
    }
    lk__shard_sums_begin(&t->shards);
    for (int64_t first = 0; first < batch->n; first += shard_size) {
        lk_batch part;
        lk_accumulator *own;
        int64_t n = batch->n - first < shard_size ? batch->n - first : shard_size;
        LK_TRY(lk__shard_sums_next(&t->shards, &own));
        LK_TRY(lk__batch_part(batch, first, n, &part));
        lk_status st = lk__microbatch_pass(t, &part, own, time);
        lk_tensor_free(part.x);
        lk_tensor_free(part.y);
        LK_TRY(st);
        LK_TRY(lk__shard_sums_push(&t->shards));
    }
    LK_TRY(lk__shard_sums_finish(&t->shards, to));
    return LK_OK;
}
