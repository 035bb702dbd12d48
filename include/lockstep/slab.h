/* Slabs: many named tensors in one contiguous buffer.
 *
 * The parameters of a model live in one slab, their gradients in a second and the optimizer's state
 * in more, all of one layout: then a checkpoint is one write, an update is one loop, and a bucket of
 * gradients is a range of offsets.
 *
 *     layout   0          64                      192          the bytes of a slab
 *              | fc1.bias |        fc1.weight     | fc2.bias ...
 *
 * A layout is an ordered list of slices: name, dtype, shape and, following from these, offset.  Each
 * slice starts at a multiple of 64 bytes; the gaps hold zeros in a new slab, and neither hash nor
 * equality of states depends on them.  A slab made from a layout fixes it: nothing can be added any
 * more.
 *
 * Nothing here is collective.  Functions that make something set `*out` to NULL when they fail.
 * Those that return no status need a layout or slab that is not NULL.
 */
#ifndef LK_SLAB_H
#define LK_SLAB_H

#include <lockstep/tensor.h>

LK_BEGIN_DECLS

/** Names, dtypes, shapes and offsets of the slices of a slab. */
typedef struct lk_layout lk_layout;

/** One slice of a layout.  `name` is borrowed from the layout. */
typedef struct lk_slab_slice {
    const char *name;
    lk_dtype dtype;
    lk_shape shape;
    int64_t count;  /* elements */
    int64_t offset; /* bytes from the slab's start */
    int64_t bytes;  /* without the gap behind */
} lk_slab_slice;

/** Make an empty layout.  The caller owns it; release it with lk_layout_free().  Errors: LK_ENOMEM. */
LK_API lk_status lk_layout_new(lk_layout **out) LK_NODISCARD;

/** One holder less; slabs hold their layout too.  NULL is allowed. */
LK_API void lk_layout_free(lk_layout *layout);

/**
 * Append a slice; the layout keeps a copy of `name`.
 *
 * Errors: LK_EINVAL for a name that is NULL, empty or already there, and for a layout that a slab
 * was made from; LK_EDTYPE; LK_EINVAL, LK_EOVERFLOW for the shape and for the sum of all; LK_ENOMEM.
 * The layout is then unchanged.
 */
LK_API lk_status lk_layout_add(lk_layout *layout, const char *name, lk_dtype dtype,
                               lk_shape shape) LK_NODISCARD;

/** Slices in the layout, which are numbered from 0 in the order they were added. */
LK_API int64_t lk_layout_slices(const lk_layout *layout);

/** Bytes of a slab of this layout, a multiple of 64. */
LK_API int64_t lk_layout_bytes(const lk_layout *layout);

/** Slice number `i`.  Errors: LK_EINVAL unless 0 <= i < lk_layout_slices(). */
LK_API lk_status lk_layout_get(const lk_layout *layout, int64_t i, lk_slab_slice *out) LK_NODISCARD;

/** The number of the slice of this name, in constant time.  Errors: LK_EINVAL if there is none. */
LK_API lk_status lk_layout_find(const lk_layout *layout, const char *name,
                                int64_t *out) LK_NODISCARD;

/**
 * The number of the slice that holds byte `offset`, or -1 if it lies in a gap.
 *
 * Errors: LK_EINVAL unless 0 <= offset < lk_layout_bytes().
 */
LK_API lk_status lk_layout_find_offset(const lk_layout *layout, int64_t offset,
                                       int64_t *out) LK_NODISCARD;

/** One buffer with the slices of a layout. */
typedef struct lk_slab lk_slab;

/**
 * Make a slab of zeros.
 *
 * Retains the layout.  The caller owns `*out`; release it with lk_slab_free().
 *
 * Errors: LK_EINVAL (`layout` NULL), LK_ENOMEM.
 */
LK_API lk_status lk_slab_new(lk_layout *layout, lk_slab **out) LK_NODISCARD;

/**
 * Make a slab on the host's memory, `bytes` bytes aligned to LK_ALIGN, whose contents stay.
 *
 * Retains the layout.  The memory must live until `release` (may be NULL) is called with `context`:
 * when the slab and all tensors on it are freed.  If the function fails, `release` is not called.
 *
 * Errors: LK_EINVAL (NULL, wrong alignment, fewer bytes than the layout needs), LK_ENOMEM.
 */
LK_API lk_status lk_slab_wrap(lk_layout *layout, void *memory, int64_t bytes,
                              lk_release_fn *release, void *context, lk_slab **out) LK_NODISCARD;

/** Free the slab; its memory lives on while tensors on it do.  NULL is allowed. */
LK_API void lk_slab_free(lk_slab *slab);

/** The layout, borrowed.  Twin slabs have the same one. */
LK_API lk_layout *lk_slab_layout(const lk_slab *slab);

/** The buffer, lk_layout_bytes() of the layout long; borrowed. */
LK_API void *lk_slab_data(const lk_slab *slab);

/**
 * Slice number `i` as a tensor on the slab's memory.
 *
 * Retains the storage; the caller owns `*out`.
 *
 * Errors: LK_EINVAL (no such slice), LK_ENOMEM.
 */
LK_API lk_status lk_slab_tensor(const lk_slab *slab, int64_t i, lk_tensor **out) LK_NODISCARD;

/** As lk_slab_tensor(), by name. */
LK_API lk_status lk_slab_find(const lk_slab *slab, const char *name, lk_tensor **out) LK_NODISCARD;

/**
 * The whole buffer, gaps included, as one tensor with one axis, for loops over everything.
 *
 * Retains the storage; the caller owns `*out`.
 *
 * Errors: LK_EDTYPE when the slices have different dtypes, naming two; LK_EINVAL when there is no
 * slice; LK_ENOMEM.
 */
LK_API lk_status lk_slab_flat(const lk_slab *slab, lk_tensor **out) LK_NODISCARD;

/** Set every byte to zero. */
LK_API void lk_slab_zero(lk_slab *slab);

/** Add all slices in order, as lk_tensor_hash() does: names, dtypes, shapes and bits, not gaps. */
LK_API void lk_slab_hash(const lk_slab *slab, lk_hash *h);

LK_END_DECLS

#endif /* LK_SLAB_H */
