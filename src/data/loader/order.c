/* Which sample is at which position of an epoch: a permutation of all, or a shuffle buffer.
 *
 * A buffered epoch goes through the runs of the set (files of records) in an order of its own, and through
 * each run from its beginning to its end.  What comes so is cut into buffers of `size` samples, the first of
 * a size that differs from epoch to epoch, and the samples of a buffer are permuted:
 *
 *   runs       the permutation of (seed, "data", "files") at the epoch
 *   first one  1 + the number below `size` of (seed, "data", "buffer") at the epoch; all samples, if `size`
 *              is not smaller than their number
 *   order      in buffer k, the permutation of (seed, "data", "shuffle") at epoch * K + k, where K is the
 *              number of samples divided by `size`, rounded up, and 1
 *
 * So the sample of a position is a function of the seed, the epoch and the position, and is found by reading
 * on from the beginning of one run.  Without shuffling samples are in their order, and a buffer is a batch.
 */
#include "data/loader/order.h"

#include "data/dataset.h"
#include "data/loader/loader.h"

enum { BUFFER_BYTES = 128 << 20 }; /* of all samples of a buffer, unless its size is given */

static int64_t sample_bytes(const lk_dataset_info *info)
{
    int64_t bytes = 1;
    for (int f = 0; f < info->n_fields; f++)
        bytes += lk__field_bytes(&info->field[f]);
    return bytes;
}

int64_t lk__order_size(const lk_dataset_info *info, const lk_loader_options *o)
{
    int64_t size = o->shuffle_buffer;
    if (info->n_fields == 0 || (!info->stream && (size == 0 || !o->shuffle)))
        return 0;
    if (!o->shuffle)
        return o->batch;
    if (size == 0)
        size = BUFFER_BYTES / sample_bytes(info);
    size = size < o->batch && o->shuffle_buffer == 0 ? o->batch : size;
    return size < info->count ? size : info->count;
}

/* The samples of the first buffer. */
static lk_status first_size(const lk_loader *l, int64_t epoch, int64_t *out)
{
    *out = l->order_size;
    if (!l->options.shuffle || l->order_size == l->info->count)
        return LK_OK;
    LK_TRY(lk_rng_below(lk_rng_start(l->seed, "data", "buffer"), (lk_rng_at){epoch, 0, 0},
                        l->order_size, 1, out));
    ++*out;
    return LK_OK;
}

int64_t lk__order_buffers(const lk_loader *l)
{
    return (l->info->count - 1) / l->order_size + 2;
}

lk_status lk__order_find(const lk_loader *l, int64_t epoch, int64_t position, int64_t *number)
{
    int64_t first;
    LK_TRY(first_size(l, epoch, &first));
    *number = position < first ? 0 : 1 + (position - first) / l->order_size;
    return LK_OK;
}

lk_status lk__order_range(const lk_loader *l, int64_t epoch, int64_t number, lk_range *out)
{
    int64_t first, count = l->info->count;
    LK_TRY(first_size(l, epoch, &first));
    int64_t from = number == 0 ? 0 : first + (number - 1) * l->order_size;
    int64_t to = number == 0 ? first : from + l->order_size;
    from = from < count ? from : count;
    to = to < count ? to : count;
    *out = (lk_range){from, to - from};
    return LK_OK;
}

/* Samples `from.first` to the end of `from` of what the runs give one after the other, in their order. */
static void read_runs(const lk_loader *l, const int64_t *order, lk_range from, int64_t *out)
{
    int64_t n_runs, at = 0, n = 0;
    const int64_t *first = lk__dataset_runs(l->ds, &n_runs);
    for (int64_t i = 0; i < n_runs && n < from.n; i++) {
        int64_t run = order[i], begin = first[run];
        int64_t length = (run + 1 < n_runs ? first[run + 1] : l->info->count) - begin;
        int64_t skip = from.first + n - at; /* of this run */
        for (; skip >= 0 && skip < length && n < from.n; skip++)
            out[n++] = begin + skip;
        at += length;
    }
}

lk_status lk__order_read(const lk_loader *l, int64_t epoch, lk_range range, int64_t *runs,
                         int64_t *out)
{
    int64_t n;
    (void)lk__dataset_runs(l->ds, &n);
    if (!l->options.shuffle) {
        for (int64_t i = 0; i < range.n; i++)
            out[i] = range.first + i;
        return LK_OK;
    }
    LK_TRY(lk_rng_permute(lk_rng_start(l->seed, "data", "files"), epoch, n, 0, n, runs));
    read_runs(l, runs, range, out);
    return LK_OK;
}

lk_status lk__order_shuffle(const lk_loader *l, int64_t epoch, int64_t number, int64_t n,
                            int64_t *out)
{
    if (l->options.shuffle) {
        return LK_TRACE(
            lk_rng_permute(l->shuffle, epoch * lk__order_buffers(l) + number, n, 0, n, out));
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    return LK_OK;
}

lk_status lk__order_pick(const lk_loader *l, int64_t epoch, int64_t first, int64_t n,
                         int64_t *index)
{
    if (l->options.shuffle) {
        return LK_TRACE(lk_rng_permute(l->shuffle, epoch, l->info->count, first, n, index));
    }
    for (int64_t i = 0; i < n; i++)
        index[i] = first + i;
    return LK_OK;
}
