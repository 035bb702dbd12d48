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
 * A slice may hold a part of its tensor, a box of it (pieces.h), such as the columns of a weight that
 * a rank works on, or nothing: then `shape` is still that of the whole tensor, and everything that is
 * counted in the slab (count, bytes, offset, the sizes of lk_slab_tensor()) is of the box.  Where the
 * part is no box of the shape, the box is one of the shape with an axis taken apart: the first units of
 * all four gates of a weight [8][4 * 16] are the columns 0-7 of [8][4][16].  The elements of both lie
 * in the same order.
 *
 * Nothing here is collective.  Functions that make something set `*out` to NULL when they fail.
 * Those that return no status need a layout or slab that is not NULL.
 */
#ifndef LK_SLAB_H
#define LK_SLAB_H

#include <lockstep/pieces.h>
#include <lockstep/tensor.h>

LK_BEGIN_DECLS

/** Names, dtypes, shapes and offsets of the slices of a slab.  Models make them; one thread at a time adds
 * slices, and once a slab is made of it any thread may read.  Not collective. */
typedef struct lk_slab_layout lk_slab_layout;

/** One slice of a layout.  `name` is borrowed from the layout. */
typedef struct lk_slab_slice {
    const char *name;
    lk_dtype dtype;
    lk_shape shape;  /* of the whole tensor */
    lk_shape box_of; /* `shape`, or `shape` with an axis taken apart */
    lk_box box;      /* what the slice holds, of a tensor of the shape `box_of` */
    int64_t count;   /* elements of the box */
    int64_t offset;  /* bytes from the slab's start */
    int64_t bytes;   /* without the gap behind */
} lk_slab_slice;

/** Make an empty layout.  The caller owns it; release it with lk_slab_layout_free().  Errors: LK_ENOMEM. */
LK_API lk_status lk_slab_layout_new(lk_slab_layout **out) LK_NODISCARD;

/** Release a reference; each slab has one to its layout.  NULL is allowed. */
LK_API void lk_slab_layout_free(lk_slab_layout *layout);

/**
 * Append a slice; the layout keeps a copy of `name`.
 *
 * Errors: LK_EINVAL for a name that is NULL, empty or already there, and for a layout that a slab
 * was made from; LK_EDTYPE; LK_EINVAL, LK_EOVERFLOW for the shape and for the sum of all; LK_ENOMEM.
 * The layout is then unchanged.
 */
LK_API lk_status lk_slab_layout_add(lk_slab_layout *layout, const char *name, lk_dtype dtype,
                                    lk_shape shape) LK_NODISCARD;

/**
 * As lk_slab_layout_add() for a slice that holds `box`, which may be empty, of a tensor of this shape,
 * seen as one of the shape `box_of`.
 *
 * Errors: those of lk_slab_layout_add(); LK_EINVAL for a box that has other axes than `box_of` or reaches
 * out, and unless `box_of` has the elements of `shape`.
 */
LK_API lk_status lk_slab_layout_add_box(lk_slab_layout *layout, const char *name, lk_dtype dtype,
                                        lk_shape shape, lk_shape box_of,
                                        const lk_box *box) LK_NODISCARD;

/** Whether all slices hold the whole of their tensors; if not, `*part` (may be NULL) is the first that
 * does not. */
LK_API bool lk_slab_layout_is_whole(const lk_slab_layout *layout, lk_slab_slice *part);

/** What a slice holds, for messages: "f32[4,0:3]", with the range of each axis that is not whole. */
typedef struct lk_slice_text {
    char s[256];
} lk_slice_text;
LK_API lk_slice_text lk_slab_slice_text(const lk_slab_slice *slice);

/** Where element number `i` of what a slice holds lies in the whole tensor, row-major. */
LK_API int64_t lk_slab_slice_place(const lk_slab_slice *slice, int64_t i);

/** Slices in the layout, which are numbered from 0 in the order they were added. */
LK_API int64_t lk_slab_layout_slices(const lk_slab_layout *layout);

/** Bytes of a slab of this layout, a multiple of 64. */
LK_API int64_t lk_slab_layout_bytes(const lk_slab_layout *layout);

/** Slice number `i`.  Errors: LK_EINVAL unless 0 <= i < lk_slab_layout_slices(). */
LK_API lk_status lk_slab_layout_slice(const lk_slab_layout *layout, int64_t i,
                                      lk_slab_slice *out) LK_NODISCARD;

/** The number of the slice of this name, in constant time.  Errors: LK_EINVAL if there is none. */
LK_API lk_status lk_slab_layout_find(const lk_slab_layout *layout, const char *name,
                                     int64_t *out) LK_NODISCARD;

/**
 * The number of the slice that holds byte `offset`, or -1 if it lies in a gap.
 *
 * Errors: LK_EINVAL unless 0 <= offset < lk_slab_layout_bytes().
 */
LK_API lk_status lk_slab_layout_find_offset(const lk_slab_layout *layout, int64_t offset,
                                            int64_t *out) LK_NODISCARD;

/** One buffer with the slices of a layout.  Models, accumulators and optimizers make them; any thread may
 * read one, and who writes meanwhile is the caller's to arrange.  Not collective. */
typedef struct lk_slab lk_slab;

/**
 * Make a slab of zeros.
 *
 * Retains the layout.  The caller owns `*out`; release it with lk_slab_free().
 *
 * Errors: LK_EINVAL (`layout` NULL), LK_ENOMEM.
 */
LK_API lk_status lk_slab_new(lk_slab_layout *layout, lk_slab **out) LK_NODISCARD;

/**
 * Make a slab of zeros with one slice, without a layout to be made first.
 *
 * The slab owns its layout.  The caller owns `*out`; release it with lk_slab_free().
 *
 * Errors: those of lk_slab_layout_add(), LK_ENOMEM.
 */
LK_API lk_status lk_slab_new_tensor(const char *name, lk_dtype dtype, lk_shape shape,
                                    lk_slab **out) LK_NODISCARD;

/**
 * Make a slab of zeros with the layout of another, such as gradients for parameters.
 *
 * Retains the layout, not `slab`.  The caller owns `*out`; release it with lk_slab_free().
 *
 * Errors: LK_EINVAL (`slab` NULL), LK_ENOMEM.
 */
LK_API lk_status lk_slab_new_like(const lk_slab *slab, lk_slab **out) LK_NODISCARD;

/**
 * Make a slab on the host's memory, `bytes` bytes aligned to LK_ALIGN, whose contents stay.
 *
 * Retains the layout.  The memory must live until `release` (may be NULL) is called with `context`:
 * when the slab and all tensors on it are freed.  If the function fails, `release` is not called.
 *
 * Errors: LK_EINVAL (NULL, wrong alignment, fewer bytes than the layout needs), LK_ENOMEM.
 */
LK_API lk_status lk_slab_wrap(lk_slab_layout *layout, void *memory, int64_t bytes,
                              lk_release_fn *release, void *context, lk_slab **out) LK_NODISCARD;

/** Free the slab; its memory lives on while tensors on it do.  NULL is allowed. */
LK_API void lk_slab_free(lk_slab *slab);

/** The layout, borrowed.  Twin slabs have the same one. */
LK_API lk_slab_layout *lk_slab_layout_of(const lk_slab *slab);

/** The buffer, lk_slab_layout_bytes() of the layout long; borrowed. */
LK_API void *lk_slab_data(const lk_slab *slab);

/**
 * Slice number `i` as a tensor on the slab's memory: of its shape, or of the sizes of its box if that
 * is not the whole.
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

/** Add all slices in order, as lk_tensor_hash() does: names, dtypes, shapes and bits, not gaps; of one
 * that holds a part, also which. */
LK_API void lk_slab_hash(const lk_slab *slab, lk_hash *h);

LK_END_DECLS

#endif /* LK_SLAB_H */
