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

lk_status lk__batch_read(const lk_trainer *t, const lk__batch_work *work, lk_range samples,
                         lk_batch *batch)
{
    lk_status st = lk_loader_read_batch(work->loader, work->epoch, work->number,
                                        work->from + samples.first, samples.n, batch);
    if (st == LK_ENOMEM)
        lk__report_fitting_size(t);
    LK_TRY(st);
    batch->first = samples.first;
    batch->size = work->size;
    return LK_OK;
}

/* What passes go over: the samples, or in their place zeros, which are then to be freed.  *out is NULL if there
 * are no passes. */
static lk_status part_get(const lk_trainer *t, const lk__batch_work *work, lk_batch *batch,
                          lk_batch *zeros, lk_status *unread, const lk_batch **out)
{
    lk_range samples = work->zeros ? *work->zeros : lk__batch_samples(t, work->size, work->shards);
    *zeros = (lk_batch){.size = work->size, .first = samples.first, .n = samples.n};
    *unread = LK_OK;
    *out = NULL;
    if (work->shards.n == 0 && !work->communicates && !work->zeros)
        return LK_OK;
    if (!work->zeros) {
        *unread = lk__batch_read(t, work, samples, batch);
        *out = *unread == LK_OK ? batch : NULL;
        if (*out || !work->communicates)
            return LK_OK;
    }
    *out = zeros;
    return LK_TRACE(lk__batch_zeros(work, zeros));
}

lk_status lk__batch_run(lk_trainer *t, const lk__batch_work *work, lk_batch *batch,
                        lk_step_seconds *time, lk_status *unread)
{
    int64_t clock = lk_clock_ns();
    lk_range range[LK_MAX_SUBTREES];
    lk_batch zeros;
    const lk_batch *whole;
    lk__failure why;
    lk_status st = part_get(t, work, batch, &zeros, unread, &whole);
    if (*unread != LK_OK)
        lk__failure_get(&why);
    time->data = lk__seconds_since(&clock);
    int n = whole ? lk__groups_microbatches(t->groups, range) : 0;
    bool by_shards = work->trains && !t->spec.parallel_model &&
                     lk_model_has_weight_reuse(t->spec.model);
    for (int k = 0; st == LK_OK && whole && (k < n || k == 0); k++) {
        lk_accumulator *to = work->trains ? lk__groups_accumulator(t->groups, k) : NULL;
        lk_batch part = *whole;
        if (n > 1) {
            lk_range samples = lk__batch_samples(t, whole->size, range[k]);
            LK_TRY_TO(done, lk__batch_part(whole, samples.first - whole->first, samples.n, &part));
        }
        if (to && !by_shards && k >= n - 1)
            lk__groups_overlap_backward(t->groups, t->tape);
        st = !to         ? lk__eval_microbatch(t, &part, k)
             : by_shards ? lk__shards_accumulate(t, &part, to, time)
                         : lk__microbatch_pass(t, &part, to, time);
        if (n > 1) {
            lk_tensor_free(part.x);
            lk_tensor_free(part.y);
        }
    }
done:
    if (whole == &zeros) {
        lk_tape_reset(t->tape);
        lk_tensor_free(zeros.x);
        lk_tensor_free(zeros.y);
    }
    if (st == LK_OK && *unread != LK_OK)
        lk__failure_set(&why);
    return LK_TRACE(st);
}
