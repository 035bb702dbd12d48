/* lk_tensor and lk__storage from inside: a shape with strides on memory that is counted.  Made by
 * lk_tensor_new(), slabs, views and tapes; ops, dist and others that go through elements read the fields.
 * References may be added and released on any thread.
 */
#ifndef LK_TENSOR_TENSOR_H
#define LK_TENSOR_TENSOR_H

#include <lockstep/tensor.h>

#include <stdatomic.h>
#include <string.h>

/* How often elements were written by functions of this room; who saved a value compares. */
typedef _Atomic uint64_t lk__version;

/* Memory with a count of the tensors on it. */
struct lk__storage {
    _Atomic int64_t holders;
    lk__version version;
    lk__version *parts; /* of the slices of a slab, owned; otherwise NULL */
    void *data;
    bool owned; /* data is a block of lk_alloc() */
    lk_release_fn *release;
    void *context;
};

/** A storage with one holder and `bytes` bytes of its own, zeros if `zero`. */
lk_status lk__storage_new(int64_t bytes, bool zero, struct lk__storage **out) LK_NODISCARD;

/** A storage with one holder on the host's memory. */
lk_status lk__storage_wrap(void *data, lk_release_fn *release, void *context,
                           struct lk__storage **out) LK_NODISCARD;

void lk__storage_retain(struct lk__storage *s);

/** Release a reference; NULL is allowed. */
void lk__storage_free(struct lk__storage *s);

struct lk_tensor {
    _Atomic int64_t holders;
    lk_dtype dtype;
    bool writable;
    lk_shape shape;
    int64_t count;               /* of the shape */
    int64_t stride[LK_MAX_NDIM]; /* elements, never negative */
    int64_t offset;              /* elements from the storage's data to the first one */
    struct lk__storage *storage;
    lk__version *version; /* that of the storage, or of a slice of it */
};

/** Elements of t are about to be written. */
static inline void lk__tensor_writes(const lk_tensor *t)
{
    atomic_fetch_add_explicit(t->version, 1, memory_order_relaxed);
}

/** Grows with every write to t's storage, or to t's slice of it. */
static inline uint64_t lk__tensor_version(const lk_tensor *t)
{
    uint64_t all = atomic_load_explicit(&t->storage->version, memory_order_relaxed);
    return all + atomic_load_explicit(t->version, memory_order_relaxed);
}

/** Strides of a row-major tensor of a checked shape; all 0 if it has no elements. */
void lk__shape_strides(lk_shape shape, int64_t *stride);

/** Strides of `shape`, which has t's count, on t's elements; false if none would do. */
bool lk__reshape_strides(const lk_tensor *t, lk_shape shape, int64_t *stride);

/** A writable row-major tensor of a checked shape at `offset` elements; retains `s`. */
lk_status lk__tensor_on(struct lk__storage *s, lk_dtype dtype, lk_shape shape, int64_t offset,
                        lk_tensor **out) LK_NODISCARD;

/** What t says, without its holders, whom other threads may be counting. */
static inline lk_tensor lk__tensor_fields(const lk_tensor *t)
{
    lk_tensor fields = {.dtype = t->dtype,
                        .writable = t->writable,
                        .shape = t->shape,
                        .count = t->count,
                        .offset = t->offset,
                        .storage = t->storage,
                        .version = t->version};
    memcpy(fields.stride, t->stride, sizeof fields.stride);
    return fields;
}

/** A tensor of the fields of `view`, whose storage it retains. */
lk_status lk__tensor_view(const lk_tensor *view, lk_tensor **out) LK_NODISCARD;

/** The address of the first element. */
static inline char *lk__tensor_start(const lk_tensor *t)
{
    return (char *)t->storage->data + t->offset * (int64_t)lk_dtype_size(t->dtype);
}

#endif /* LK_TENSOR_TENSOR_H */
