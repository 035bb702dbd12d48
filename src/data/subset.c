/* Parts of a dataset: a range of positions of a keyed permutation, a choice of samples, and what is kept for
 * validation.  Jobs make them (src/train/job.c), or a program does, and loaders read them as any set.  The
 * permutation is a function, so a part takes no memory.  Of a stream it is that of its samples as they follow
 * each other: others would be far.
 */
#include "base/fpenv.h"
#include "data/dataset.h"
#include "data/empty.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/hash.h>
#include <lockstep/rng.h>

struct part {
    lk_dataset *whole;
    lk_rng rng;
    int64_t first, count; /* count: of the whole */
    bool stream;          /* samples follow each other as they do in the whole */
    int64_t run[];        /* where its runs begin */
};

/* Which sample of the whole it is. */
static lk_status part_find(const struct part *p, int64_t index, int64_t *out)
{
    *out = p->first + index;
    if (!p->stream)
        LK_TRY(lk_rng_permute(p->rng, 0, p->count, p->first + index, 1, out));
    return LK_OK;
}

static lk_status part_row(void *context, int64_t index, void *const *row)
{
    const struct part *p = context;
    int64_t at;
    LK_TRY(part_find(p, index, &at));
    return LK_TRACE(lk__dataset_row(p->whole, at, row));
}

static lk_status part_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    const struct part *p = context;
    int64_t at;
    LK_TRY(part_find(p, index, &at));
    return LK_TRACE(lk__dataset_box(p->whole, at, field, box, out));
}

static void part_free(void *context)
{
    struct part *p = context;
    lk_dataset_free(p->whole);
    lk_free(p);
}

/* The stamp of a part is that of the whole, and which samples they are. */
static void part_stamp(lk_dataset *part, const lk_dataset *whole, int64_t seed, const char *stream,
                       int64_t first)
{
    lk_hash h = lk_hash_start();
    lk_hash_add_i64(&h, (int64_t)lk__dataset_stamp(whole));
    lk_hash_add_i64(&h, seed);
    lk_hash_add_text(&h, stream);
    lk_hash_add_i64(&h, first);
    lk_hash_add_i64(&h, lk_dataset_info_of(part)->count);
    if (lk__dataset_stamp(whole) != 0)
        lk__dataset_set_stamp(part, lk_hash_value(&h));
}

/* Where runs begin in samples [first, first + n); returns how many there are. */
static int64_t runs_cut(const int64_t *run, int64_t n_runs, int64_t first, int64_t n, int64_t *out)
{
    int64_t k = 0;
    for (int64_t i = 0; i < n_runs; i++) {
        bool ends_before = i + 1 < n_runs && run[i + 1] <= first;
        if (!ends_before && run[i] < first + n)
            out[k++] = run[i] > first ? run[i] - first : 0;
    }
    return k;
}

/* Positions first, ..., first + n - 1 of the permutation of (seed, "data", stream), or of a stream. */
static lk_status part_new(lk_dataset *ds, int64_t seed, const char *stream, int64_t first,
                          int64_t n, lk_dataset **out)
{
    *out = NULL;
    lk_dataset_info info = *lk_dataset_info_of(ds);
    LK_CHECK(first >= 0 && n >= 0 && first <= info.count && n <= info.count - first, LK_EINVAL,
             "dataset %s: samples %lld to %lld of %lld", info.name, (long long)first,
             (long long)(first + n - 1), (long long)info.count);
    if (info.n_fields == 0) { /* which samples they are makes no difference */
        return LK_TRACE(lk__dataset_new_empty(n, out));
    }
    struct part *p;
    int64_t n_runs;
    const int64_t *run = lk__dataset_runs(ds, &n_runs);
    LK_TRY(lk_alloc(&p, 1, sizeof *p + (size_t)n_runs * sizeof p->run[0]));
    *p = (struct part){ds, lk_rng_start(seed, "data", stream), first, info.count, info.stream};
    info.count = n;
    lk_status st = LK_OK;
    lk_dataset_box_fn *box = lk__dataset_has_boxes(ds) ? part_box : NULL;
    LK_TRY_TO(fail, lk_dataset_new_boxes(&info, part_row, box, part_free, p, out));
    lk_dataset_retain(ds);
    part_stamp(*out, ds, seed, stream, first);
    if (p->stream)
        lk__dataset_set_runs(*out, p->run, runs_cut(run, n_runs, first, n, p->run));
    return LK_OK;
fail:
    lk_free(p);
    return st;
}

lk_status lk_dataset_subset(lk_dataset *ds, int64_t seed, int64_t first, int64_t n,
                            lk_dataset **out)
{
    return LK_TRACE(part_new(ds, seed, "split", first, n, out));
}

lk_status lk_dataset_sample(lk_dataset *ds, int64_t seed, double samples, lk_dataset **out)
{
    LK_FP_GUARD();
    *out = NULL;
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    LK_CHECK(samples >= 0 && samples <= 1e15, LK_EINVAL, "dataset %s: %g samples are to be taken",
             info->name, samples);
    if (samples == 0) {
        *out = lk_dataset_retain(ds);
        return LK_OK;
    }
    int64_t n = samples < 1 ? (int64_t)(samples * (double)info->count) : (int64_t)samples;
    LK_CHECK(samples < 1 || samples == (double)n, LK_EINVAL,
             "dataset %s: %g samples are to be taken: from 1 on it must be a whole number, below "
             "it is a share",
             info->name, samples);
    LK_CHECK(n >= 1, LK_EINVAL, "dataset %s: a share of %g of %lld samples is less than one",
             info->name, samples, (long long)info->count);
    LK_CHECK(n <= info->count, LK_EINVAL, "dataset %s: %lld samples are to be taken, it has %lld",
             info->name, (long long)n, (long long)info->count);
    return LK_TRACE(part_new(ds, seed, "samples", 0, n, out));
}

lk_status lk_dataset_split(lk_dataset *ds, int64_t seed, double share, lk_dataset **train,
                           lk_dataset **validation)
{
    LK_FP_GUARD();
    *train = *validation = NULL;
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    LK_CHECK(share >= 0 && share < 9e15, LK_EINVAL, "dataset %s: a share of %g for validation",
             info->name, share);
    if (share == 0) {
        *train = lk_dataset_retain(ds);
        return LK_OK;
    }
    int64_t n = share < 1 ? (int64_t)(share * (double)info->count) : (int64_t)share;
    LK_CHECK(n >= 1 && n < info->count, LK_EINVAL,
             "dataset %s: %lld of %lld samples for validation leave nothing on one side",
             info->name, (long long)n, (long long)info->count);
    LK_TRY(lk_dataset_subset(ds, seed, info->count - n, n, validation));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, lk_dataset_subset(ds, seed, 0, info->count - n, train));
    lk__dataset_set_split(*train, LK_TRAIN);
    lk__dataset_set_split(*validation, LK_VALIDATION);
    return LK_OK;
fail:
    lk_dataset_free(*validation);
    *validation = NULL;
    return st;
}
