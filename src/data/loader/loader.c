/* lk_loader: makes batches of a dataset.  A job or the program makes one; the trainer asks for batches
 * on its thread, and threads of the loader prepare the next ones (readers.c).
 */
#include "data/loader/loader.h"

#include "base/fpenv.h"
#include "data/dataset.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* ---- making and freeing ---- */

/* What becomes of each field. */
static lk_status describe(lk_loader *l)
{
    const lk_loader_options *o = &l->options;
    for (int f = 0; f < l->info->n_fields; f++) {
        l->field[f] = l->info->field[f];
        l->box[f] = lk__field_whole(&l->info->field[f]);
        if (f == l->x || (f == l->y && (l->classes == 0 || o->one_hot)))
            l->field[f].dtype = o->dtype;
        if (f == l->x && o->indices > 0)
            l->field[f].dtype = lk__index_dtype(l->info->field[f].dtype);
        if (f == l->y && l->classes > 0 && o->one_hot) {
            lk_shape *shape = &l->field[f].shape;
            LK_CHECK(shape->ndim + 2 <= LK_MAX_NDIM, LK_EINVAL,
                     "dataset %s: one_hot labels of shape %s would have too many axes",
                     lk__dataset_title(l->ds), lk_shape_text(*shape).s);
            shape->dim[shape->ndim++] = l->classes;
        }
    }
    return LK_OK;
}

/* Which fields are moved, where that is asked for. */
static lk_status describe_moves(lk_loader *l)
{
    if ((l->options.crop == 0 && !l->options.flip) || l->info->n_fields == 0)
        return LK_OK;
    const lk_shape *x = &l->info->field[l->x].shape;
    LK_CHECK(x->ndim == 3 || x->ndim == 4, LK_EINVAL,
             "dataset %s: crop and flip are for images and volumes, not for samples of %s",
             lk__dataset_title(l->ds), lk_shape_text(*x).s);
    if (l->y >= 0) { /* labels of pixels move with them */
        const lk_shape *y = &l->info->field[l->y].shape;
        l->moves[l->y] = y->ndim >= x->ndim - 1 &&
                         memcmp(y->dim, x->dim, (size_t)(x->ndim - 1) * sizeof x->dim[0]) == 0;
    }
    l->moves[l->x] = l->moves_any = true;
    return LK_OK;
}

/* Numbers of rows mean nothing when they are scaled. */
static lk_status check_indices(const char *name, const lk_loader_options *o)
{
    LK_CHECK(o->indices >= 0, LK_EINVAL, "dataset %s: indices below %lld", name,
             (long long)o->indices);
    LK_CHECK(o->indices == 0 ||
                 ((o->normalise == LK_NORMALISE_AUTO || o->normalise == LK_NORMALISE_NONE) &&
                  o->mean.n == 0 && o->std.n == 0 && o->scale == 1 && o->shift == 0),
             LK_EINVAL,
             "dataset %s: the model takes whole numbers, which are not normalised: leave out "
             "normalise, mean, std, scale and shift",
             name);
    return LK_OK;
}

static lk_status check_options(const lk_dataset *ds, const lk_loader_options *o)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    const char *name = lk__dataset_title(ds);
    LK_CHECK(info->count > 0, LK_EINVAL, "dataset %s: there is no sample in it", name);
    LK_CHECK(lk_dataset_find(ds, "x") >= 0 || info->n_fields == 0, LK_EINVAL,
             "dataset %s: it has no field \"x\"", name);
    LK_CHECK(o->batch >= 1 && o->shards >= 1, LK_EINVAL, "batches of %lld samples in %lld shards",
             (long long)o->batch, (long long)o->shards);
    LK_CHECK(o->crop >= 0 && o->prefetch >= 0 && o->prefetch < 1024, LK_EINVAL,
             "crop by %lld, prefetch of %lld batches", (long long)o->crop, (long long)o->prefetch);
    LK_CHECK(o->readers >= 0 && o->readers < 1024, LK_EINVAL, "%lld readers",
             (long long)o->readers);
    LK_CHECK(o->keep >= 0 && o->ranks >= 0, LK_EINVAL, "keep of %lld MiB on each of %lld ranks",
             (long long)o->keep, (long long)o->ranks);
    LK_CHECK(lk_dtype_is_real(o->dtype), LK_EDTYPE, "batches of %s: they are f32 or f64",
             lk_dtype_name(o->dtype));
    LK_CHECK(!o->one_hot || info->classes > 0 || info->n_fields == 0, LK_EINVAL,
             "dataset %s: one_hot needs labels, but it has no classes", name);
    return LK_TRACE(check_indices(name, o));
}

/* All but the normalisation. */
static lk_status loader_make(lk_dataset *ds, const lk_loader_options *options, int64_t seed,
                             int64_t classes, lk_loader **out)
{
    *out = NULL;
    LK_TRY(check_options(ds, options));
    lk_loader *l;
    LK_TRY(lk_alloc_zero(&l, 1, sizeof *l));
    l->ds = lk_dataset_retain(ds);
    l->info = lk_dataset_info_of(ds);
    l->options = *options;
    l->classes = classes;
    l->x = lk_dataset_find(ds, "x");
    l->y = lk_dataset_find(ds, "y");
    bool ahead = l->info->n_fields > 0 && options->prefetch > 0;
    l->n_readers = ahead && options->readers > 1 ? (int)options->readers : 1;
    l->n_slots = ahead ? (int)options->prefetch + 1 : 1; /* 1: no thread */
    l->n_slots = ahead && l->n_slots <= l->n_readers ? l->n_readers + 1 : l->n_slots;
    l->idle = true;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    lk_loader_set_seed(l, seed);
    lk_status st = LK_OK;
    LK_TRY_TO(fail, lk_alloc_zero(&l->slot, l->n_slots, sizeof *l->slot));
    LK_TRY_TO(fail, lk_alloc_zero(&l->reader, l->n_readers, sizeof *l->reader));
    for (int i = 0; i < l->n_readers; i++)
        l->reader[i].loader = l;
    LK_TRY_TO(fail, lk__buffers_start(l));
    LK_TRY_TO(fail, lk__cache_set(l, options->cache, lk__dataset_split_suffix(ds)));
    LK_TRY_TO(fail, describe(l));
    LK_TRY_TO(fail, describe_moves(l));
    *out = l;
    return LK_OK;
fail:
    lk_loader_free(l);
    return st;
}

/* The map that samples go through, as a whole. */
static lk_status map_make(lk_loader *l)
{
    if (l->affine.channels > 0)
        LK_TRY(lk__affine_part(&l->affine, l->options.dtype, &l->box[l->x], &l->map));
    return LK_OK;
}

lk_status lk_loader_new(lk_dataset *ds, const char *options, int64_t seed, lk_loader **out)
{
    LK_FP_GUARD();
    lk_status st;
    lk_arena *arena = NULL; /* what is read needs none of it afterwards */
    lk_loader_options read;
    *out = NULL;
    LK_TRY_TO(done, lk_arena_new(&arena));
    LK_TRY_TO(done, lk_options_parse(&lk_loader_descriptor, options, arena, &read));
    LK_TRY_TO(done, lk_loader_new_options(ds, &read, seed, out));
done:
    lk_arena_free(arena);
    return st;
}

lk_status lk_loader_new_options(lk_dataset *ds, const lk_loader_options *options, int64_t seed,
                                lk_loader **out)
{
    LK_FP_GUARD();
    LK_TRY(loader_make(ds, options, seed, lk_dataset_info_of(ds)->classes, out));
    lk_status st = LK_OK;
    if (options->indices == 0 && (*out)->x >= 0)
        LK_TRY_TO(fail, lk__affine_make(ds, (*out)->x, options, &(*out)->affine));
    LK_TRY_TO(fail, map_make(*out));
    return LK_OK;
fail:
    lk_loader_free(*out);
    *out = NULL;
    return st;
}

/* Fields as in the set that the model was made for. */
static lk_status check_like(const lk_loader *model, const lk_dataset *ds)
{
    const lk_dataset_info *a = model->info, *b = lk_dataset_info_of(ds);
    const char *name = lk__dataset_title(ds), *like = lk__dataset_title(model->ds);
    LK_CHECK((a->n_fields > 0) == (b->n_fields > 0), LK_ESHAPE, "dataset %s is %sempty, %s is%s",
             name, b->n_fields > 0 ? "not " : "", like, b->n_fields > 0 ? "" : " not");
    for (int f = 0; f < a->n_fields || f < b->n_fields; f++) {
        bool both = f < a->n_fields && f < b->n_fields;
        LK_CHECK(both && strcmp(a->field[f].name, b->field[f].name) == 0 &&
                     a->field[f].dtype == b->field[f].dtype &&
                     lk_shape_is_equal(a->field[f].shape, b->field[f].shape),
                 LK_ESHAPE, "dataset %s: field %d is not as in %s", name, f, like);
    }
    LK_CHECK((a->classes > 0) == (b->classes > 0) && b->classes <= model->classes, LK_ESHAPE,
             "dataset %s has %lld classes, %s has %lld", name, (long long)b->classes, like,
             (long long)model->classes);
    return LK_OK;
}

lk_status lk_loader_new_like(const lk_loader *model, lk_dataset *ds, lk_loader **out)
{
    LK_FP_GUARD();
    *out = NULL;
    lk_loader_options options = model->options;
    options.shuffle = options.flip = false;
    options.crop = 0;
    LK_TRY(check_like(model, ds));
    LK_TRY(loader_make(ds, &options, model->seed, model->classes, out));
    lk_status st = LK_OK;
    if (!(*out)->cache.suffix) /* another file than that of the training set */
        LK_TRY_TO(fail, lk__cache_set(*out, options.cache, ".eval"));
    if (options.indices == 0 && (*out)->x >= 0)
        LK_TRY_TO(fail, lk__affine_copy(&model->affine, options.dtype, &(*out)->affine));
    LK_TRY_TO(fail, map_make(*out));
    return LK_OK;
fail:
    lk_loader_free(*out);
    *out = NULL;
    return st;
}

void lk_loader_free(lk_loader *l)
{
    if (!l)
        return;
    lk__readers_stop(l);
    for (int i = 0; l->slot && i < l->n_slots; i++)
        lk__slot_free(&l->slot[i]);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->done);
    lk_free(l->slot);
    if (l->reader)
        lk__scratch_drop(l);
    lk_free(l->reader);
    lk__buffers_free(l);
    lk__cache_free(l);
    lk__affine_free(&l->affine);
    lk__affine_free(&l->map);
    lk_dataset_free(l->kept);
    lk_dataset_free(l->ds);
    lk_free(l);
}

/* ---- what it gives ---- */

lk_status lk_loader_read_batch(lk_loader *l, int64_t epoch, int64_t number, int64_t first,
                               int64_t n, lk_batch *out)
{
    LK_CHECK(epoch >= 0 && epoch < UINT32_MAX && number >= 0 && number < lk_loader_batches(l),
             LK_EINVAL, "batch %lld of epoch %lld: there are %lld batches", (long long)number,
             (long long)epoch, (long long)lk_loader_batches(l));
    int64_t size = lk_loader_batch_size(l, number);
    LK_CHECK(first >= 0 && n >= 0 && first <= size && n <= size - first, LK_EINVAL,
             "positions %lld to %lld of a batch of %lld", (long long)first,
             (long long)(first + n - 1), (long long)size);
    LK_TRY(lk__cache_prepare(l));
    lk__keep_prepare(l);
    lk__request r = {epoch, number, first, n};
    lk__readers_start(l);
    const lk__loader_slot *s = lk__readers_get(l, &r);
    LK_CHECK(s->status == LK_OK, s->status, "%s", s->message);
    *out = (lk_batch){.epoch = epoch,
                      .number = number,
                      .size = size,
                      .first = first,
                      .n = n,
                      .index = s->index,
                      .n_fields = l->info->n_fields};
    memcpy(out->field, lk__slot_tensors(s), (size_t)l->info->n_fields * sizeof out->field[0]);
    out->x = l->x >= 0 ? out->field[l->x] : NULL;
    out->y = l->y >= 0 ? out->field[l->y] : NULL;
    return LK_OK;
}
