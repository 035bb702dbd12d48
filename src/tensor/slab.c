/* Slabs: one storage, and a tensor on it for each slice of the layout. */
#include "tensor/layout.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

struct lk_slab {
    lk_slab_layout *layout;
    struct lk__storage *storage;
};

/* Takes over the holder of `storage`.  Each slice has a version of its own, so that a write to one
 * is none to the others. */
static lk_status slab_make(lk_slab_layout *layout, struct lk__storage *storage, lk_slab **out)
{
    LK_TRY(lk_alloc_zero(&storage->parts, layout->n, sizeof *storage->parts));
    LK_TRY(lk_alloc(out, 1, sizeof **out));
    lk__layout_retain(layout);
    **out = (lk_slab){layout, storage};
    return LK_OK;
}

lk_status lk_slab_new(lk_slab_layout *layout, lk_slab **out)
{
    lk_status st;
    struct lk__storage *storage = NULL;
    *out = NULL;
    LK_CHECK(layout, LK_EINVAL, "layout is NULL");
    LK_TRY(lk__storage_new(layout->bytes, true, &storage));
    LK_TRY_TO(fail, slab_make(layout, storage, out));
    return LK_OK;
fail:
    lk__storage_free(storage);
    return st;
}

lk_status lk_slab_new_tensor(const char *name, lk_dtype dtype, lk_shape shape, lk_slab **out)
{
    lk_status st;
    lk_slab_layout *layout = NULL;
    *out = NULL;
    LK_TRY_TO(done, lk_slab_layout_new(&layout));
    LK_TRY_TO(done, lk_slab_layout_add(layout, name, dtype, shape));
    LK_TRY_TO(done, lk_slab_new(layout, out));
done:
    lk_slab_layout_free(layout);
    return st;
}

lk_status lk_slab_new_like(const lk_slab *slab, lk_slab **out)
{
    *out = NULL;
    LK_CHECK(slab, LK_EINVAL, "slab is NULL");
    return LK_TRACE(lk_slab_new(slab->layout, out));
}

lk_status lk_slab_wrap(lk_slab_layout *layout, void *memory, int64_t bytes, lk_release_fn *release,
                       void *context, lk_slab **out)
{
    lk_status st;
    struct lk__storage *storage = NULL;
    *out = NULL;
    LK_CHECK(layout, LK_EINVAL, "layout is NULL");
    LK_CHECK(bytes >= layout->bytes, LK_EINVAL, "memory has %lld bytes, the layout needs %lld",
             (long long)bytes, (long long)layout->bytes);
    LK_CHECK(memory || layout->bytes == 0, LK_EINVAL, "memory is NULL, the layout needs %lld bytes",
             (long long)layout->bytes);
    LK_CHECK((uintptr_t)memory % LK_ALIGN == 0, LK_EINVAL,
             "memory at %p is not aligned to %d bytes", memory, LK_ALIGN);
    LK_TRY(lk__storage_wrap(memory, NULL, context, &storage));
    LK_TRY_TO(fail, slab_make(layout, storage, out));
    storage->release = release; /* only now: a failure leaves the memory with the host */
    return LK_OK;
fail:
    lk__storage_free(storage);
    return st;
}

void lk_slab_free(lk_slab *slab)
{
    if (!slab)
        return;
    lk__storage_free(slab->storage);
    lk_slab_layout_free(slab->layout);
    lk_free(slab);
}

lk_slab_layout *lk_slab_layout_of(const lk_slab *slab)
{
    return slab->layout;
}

void *lk_slab_data(const lk_slab *slab)
{
    return slab->storage->data;
}

lk_status lk_slab_tensor(const lk_slab *slab, int64_t i, lk_tensor **out)
{
    lk_slab_slice s;
    *out = NULL;
    LK_CHECK(slab, LK_EINVAL, "slab is NULL");
    LK_TRY(lk_slab_layout_slice(slab->layout, i, &s));
    int64_t offset = s.offset / (int64_t)lk_dtype_size(s.dtype);
    lk_shape held = s.shape;
    if (!slab->layout->slice[i].whole) {
        held.ndim = s.box.ndim;
        memcpy(held.dim, s.box.n, sizeof held.dim);
    }
    LK_TRY(lk__tensor_on(slab->storage, s.dtype, held, offset, out));
    (*out)->version = &slab->storage->parts[i];
    return LK_OK;
}

lk_status lk_slab_find(const lk_slab *slab, const char *name, lk_tensor **out)
{
    int64_t i;
    *out = NULL;
    LK_CHECK(slab, LK_EINVAL, "slab is NULL");
    LK_TRY(lk_slab_layout_find(slab->layout, name, &i));
    return LK_TRACE(lk_slab_tensor(slab, i, out));
}

lk_status lk_slab_flat(const lk_slab *slab, lk_tensor **out)
{
    *out = NULL;
    LK_CHECK(slab, LK_EINVAL, "slab is NULL");
    const lk_slab_layout *layout = slab->layout;
    LK_CHECK(layout->n > 0, LK_EINVAL, "the slab has no slice, so it has no dtype");
    const struct lk__slice *first = &layout->slice[0];
    for (int64_t i = 1; i < layout->n; i++)
        LK_CHECK(layout->slice[i].dtype == first->dtype, LK_EDTYPE,
                 "slice \"%s\" is %s, slice \"%s\" is %s", first->name, lk_dtype_name(first->dtype),
                 layout->slice[i].name, lk_dtype_name(layout->slice[i].dtype));
    int64_t count = layout->bytes / (int64_t)lk_dtype_size(first->dtype);
    return LK_TRACE(lk__tensor_on(slab->storage, first->dtype, LK_SHAPE(count), 0, out));
}

void lk_slab_zero(lk_slab *slab)
{
    atomic_fetch_add_explicit(&slab->storage->version, 1, memory_order_relaxed);
    memset(slab->storage->data, 0, (size_t)slab->layout->bytes);
}

void lk_slab_hash(const lk_slab *slab, lk_hash *h)
{
    const lk_slab_layout *layout = slab->layout;
    for (int64_t i = 0; i < layout->n; i++) {
        const struct lk__slice *s = &layout->slice[i];
        const char *data = (const char *)slab->storage->data + s->offset;
        lk_hash_add_tensor(h, s->name, s->dtype, s->shape.ndim, s->shape.dim,
                           lk_hash_sum_box(s->dtype, s->box_of.dim, &s->box, data));
    }
}
