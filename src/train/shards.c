/* Passing a micro-batch shard by shard, for models with a layer that uses a parameter twice in a
 * pass, and joining the shards' sums by the fixed tree. step.c calls it, on the trainer's thread.
 */
#include "train/shards.h"

#include "train/trainer.h"

#include <string.h>

/* chain[i] = chain[i] + chain[i - 1]: all but the last are spare then. */
static lk_status chain_join(lk__shard_sums *s, void **chain, int n)
{
    for (int i = 1; i < n; i++) {
        LK_TRY(lk_accumulator_add(chain[i], chain[i - 1]));
        s->spare[s->n_spare++] = chain[i - 1];
    }
    return LK_OK;
}

/* Whether the next piece is added to what the one before it has. */
static bool is_added(const lk__shard_sums *s)
{
    return s->adds && s->partials.n % 2 == 1;
}

/* Take back what a batch has that did not come to its end. */
static void sums_drop(lk__shard_sums *s)
{
    for (int k = 0; k < LK__LEVELS; k++) {
        lk_accumulator *held = s->partials.n >> k & 1 ? s->partials.level[k] : NULL;
        if (held == s->piece)
            s->piece = NULL;
        if (held && held != s->to)
            s->spare[s->n_spare++] = held;
    }
    if (s->piece && s->piece != s->to)
        s->spare[s->n_spare++] = s->piece;
    s->piece = s->to = NULL;
    s->partials = (lk__partials){.n = 0};
}

void lk__shard_sums_free(lk__shard_sums *s)
{
    sums_drop(s);
    for (int i = 0; i < s->n_spare; i++)
        lk_accumulator_free(s->spare[i]);
    s->n_spare = 0;
}

void lk__shard_sums_begin(lk__shard_sums *s, lk_accumulator *to)
{
    sums_drop(s);
    s->to = to;
}

lk_status lk__shard_sums_next(lk__shard_sums *s, lk_accumulator **out)
{
    if (is_added(s)) {
        s->piece = s->partials.level[0];
    } else {
        if (s->partials.n == 0 && s->to)
            s->piece = s->to;
        else if (s->n_spare > 0)
            s->piece = s->spare[--s->n_spare];
        else
            LK_TRY(lk__accumulator_new(s->model, &s->leaves, NULL, &s->piece));
        lk_accumulator_begin(s->piece);
    }
    *out = s->piece;
    return LK_OK;
}

lk_status lk__shard_sums_push(lk__shard_sums *s)
{
    void *chain[LK__CHAIN];
    bool added = is_added(s);
    int n = lk__partials_chain(&s->partials, s->piece, chain);
    s->piece = NULL;
    LK_TRY(chain_join(s, added ? chain + 1 : chain, added ? n - 1 : n));
    s->partials.level[n == 1 ? 0 : n - 2] = chain[n - 1]; /* the sum that the carry takes up */
    lk__partials_carry(&s->partials);
    return LK_OK;
}

lk_status lk__shard_sums_finish(lk__shard_sums *s, lk_accumulator *to)
{
    void *chain[LK__CHAIN];
    int n = lk__partials_rest(&s->partials, chain);
    s->partials.n = 0;
    LK_TRY(chain_join(s, chain, n));
    lk_accumulator *sum = chain[n - 1];
    if (sum == to)
        return LK_OK;
    memcpy(lk_slab_data(lk_accumulator_slab(to)), lk_slab_data(lk_accumulator_slab(sum)),
           (size_t)lk__accumulator_bytes(s->model, &s->leaves));
    s->spare[s->n_spare++] = sum;
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
    lk__shard_sums_begin(&t->shards, to);
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
    return LK_TRACE(lk__shard_sums_finish(&t->shards, to));
}
