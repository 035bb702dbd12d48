/* A rank's part of a batch: its shards are read, cut into micro-batches, and each is a pass.
 *
 * Steps and evaluations go through batches so, and a rehearsal through zeros; on the trainer's thread.
 */
#include "train/batches.h"

#include "base/failure.h"

#include <lockstep/extra/clock.h>

#include <string.h>

lk_status lk__batch_part(const lk_batch *whole, int64_t first, int64_t n, lk_batch *out)
{
    *out = *whole;
    out->first = whole->first + first;
    out->n = n;
    out->index = whole->index ? whole->index + first : NULL; /* zeros have none */
    out->x = out->y = NULL;
    if (whole->x) /* a stage, or a rank of a chain, may have neither */
        LK_TRY(lk_tensor_slice(whole->x, 0, first, first + n, 1, &out->x));
    lk_status st = whole->y ? lk_tensor_slice(whole->y, 0, first, first + n, 1, &out->y) : LK_OK;
    if (st != LK_OK) {
        lk_tensor_free(out->x);
        out->x = NULL;
    }
    return LK_TRACE(st);
}

lk_range lk__batch_samples(const lk_trainer *t, int64_t size, lk_range shards)
{
    int64_t shard_size = lk_loader_shard_size(t->spec.train);
    if (shards.n == 0)
        return (lk_range){0, 0};
    int64_t from = shards.first * shard_size, end = from + shards.n * shard_size;
    return (lk_range){from, (end < size ? end : size) - from};
}

/* All micro-batches of this rank, from its part of the batch. */
static lk_status microbatches_run(lk_trainer *t, const lk__batch_work *work, const lk_batch *batch,
                                  lk_step_seconds *time)
{
    lk_range range[LK_MAX_SUBTREES];
    int n = lk__groups_microbatches(t->groups, range);
    if (n <= 1)
        return work->pass(t, batch, 0, true, time);
    for (int k = 0; k < n; k++) {
        lk_range samples = lk__batch_samples(t, batch->size, range[k]);
        lk_batch part;
        LK_TRY(lk__batch_part(batch, samples.first - batch->first, samples.n, &part));
        lk_status st = work->pass(t, &part, k, k == n - 1, time);
        lk_tensor_free(part.x);
        lk_tensor_free(part.y);
        LK_TRY(st);
    }
    return LK_OK;
}

lk_status lk__zeros_of(const lk_loader *loader, int field, int64_t n, lk_tensor **out)
{
    lk_field f = lk_loader_field(loader, field);
    lk_shape shape = {.ndim = f.shape.ndim + 1, .dim = {n}};
    memcpy(&shape.dim[1], f.shape.dim, (size_t)f.shape.ndim * sizeof shape.dim[0]);
    return LK_TRACE(lk_tensor_zeros(f.dtype, shape, out));
}

lk_status lk__batch_zeros(const lk__batch_work *work, lk_batch *batch)
{
    const lk_dataset *set = lk_loader_dataset(work->loader);
    int y = lk_dataset_find(set, "y");
    LK_TRY(lk__zeros_of(work->loader, lk_dataset_find(set, "x"), batch->n, &batch->x));
    if (y >= 0)
        LK_TRY(lk__zeros_of(work->loader, y, batch->n, &batch->y));
    return LK_OK;
}

lk_status lk__batch_run_zeros(lk_trainer *t, const lk__batch_work *work, lk_range samples,
                              lk_step_seconds *time)
{
    lk_batch batch = {.size = work->size, .first = samples.first, .n = samples.n};
    lk_status st = lk__batch_zeros(work, &batch);
    if (st == LK_OK)
        st = microbatches_run(t, work, &batch, time);
    lk_tape_reset(t->tape);
    lk_tensor_free(batch.x);
    lk_tensor_free(batch.y);
    return LK_TRACE(st);
}

lk_status lk__batch_read(const lk_trainer *t, const lk__batch_work *work, lk_range samples,
                         lk_batch *batch)
{
    lk_status st = lk_loader_read_batch(work->loader, work->epoch, work->number,
                                        work->from + samples.first, samples.n, batch);
    if (st == LK_ENOMEM)
        lk__tell_what_fits(t);
    LK_TRY(st);
    batch->first = samples.first;
    batch->size = work->size;
    return LK_OK;
}

lk_status lk__batch_run(lk_trainer *t, const lk__batch_work *work, lk_batch *batch,
                        lk_step_seconds *time, lk_status *unread)
{
    int64_t clock = lk_clock_ns();
    lk_range samples = lk__batch_samples(t, work->size, work->shards);
    lk__failure why;
    *unread = LK_OK;
    if (work->shards.n == 0 && !work->meets)
        return LK_OK;
    *unread = lk__batch_read(t, work, samples, batch);
    time->data = lk__seconds_since(&clock);
    if (*unread == LK_OK) {
        LK_TRY(microbatches_run(t, work, batch, time));
    } else if (work->meets) {
        lk__failure_get(&why);
        LK_TRY(lk__batch_run_zeros(t, work, samples, time));
        lk__failure_set(&why);
    }
    return LK_OK;
}
