/* Tensors: shapes, and views of shared memory.
 *
 * A tensor is a dtype, a shape of up to 8 axes, and where each element lies in a storage: element
 * (i0, i1, ...) is at offset + i0 * stride[0] + i1 * stride[1] + ... elements.  Slicing,
 * transposing, reshaping and broadcasting make another tensor on the same storage, without a copy.
 * Storages are counted: the memory lives until the last tensor on it is freed, in any order.
 *
 * A tensor never changes its shape or place, so several holders can share one (lk_tensor_retain())
 * and several threads can read one.  Its elements change; who writes them while others read is the
 * host's to arrange.
 *
 * Nothing here is collective.  Counts are 64-bit, and products that do not fit are errors.  An axis
 * of size 0 is fine everywhere, and so is no axis at all: a scalar, with one element.  Axes are
 * numbered from 0; negative numbers are not counted from the end but refused.  Functions that make
 * a tensor set `*out` to NULL when they fail.
 */
#ifndef LK_TENSOR_H
#define LK_TENSOR_H

#include <lockstep/dtype.h>
#include <lockstep/hash.h>
#include <lockstep/pieces.h>

LK_BEGIN_DECLS

/** A shape is a value: copy it freely.  Entries beyond `ndim` are ignored. */
typedef struct lk_shape {
    int ndim;
    int64_t dim[LK_MAX_NDIM];
} lk_shape;

/* LK_DIMS(2, 3) initialises a shape in a table; LK_SHAPE(2, 3) is one in an expression, and
 * LK_SCALAR the one without axes.  LK_AT(1, 2) is an index: one number for each axis. */
#ifdef __cplusplus
/* LK__N_ARGS(a, b) is 2: C++ has no literals of arrays to take the size of. */
#    define LK__N_ARGS(...) LK__9TH(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#    define LK__9TH(a, b, c, d, e, f, g, h, i, ...) (i)
#    define LK_DIMS(...)             \
        {                            \
            LK__N_ARGS(__VA_ARGS__), \
            {                        \
                __VA_ARGS__          \
            }                        \
        }
#    define LK_SHAPE(...) (lk_shape LK_DIMS(__VA_ARGS__))
#    define LK_SCALAR (lk_shape{0, {0}})
#else
#    define LK_DIMS(...)                                        \
        {                                                       \
            sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
            {                                                   \
                __VA_ARGS__                                     \
            }                                                   \
        }
#    define LK_SHAPE(...) ((lk_shape)LK_DIMS(__VA_ARGS__))
#    define LK_SCALAR ((lk_shape){0, {0}})
#endif
#define LK_AT(...) LK_SHAPE(__VA_ARGS__)

/**
 * Elements of a shape: 1 for a scalar, 0 if an axis is 0.
 *
 * Errors: LK_EINVAL unless 0 <= ndim <= 8 and no size is negative; LK_EOVERFLOW.
 */
LK_API lk_status lk_shape_count(lk_shape shape, int64_t *out) LK_NODISCARD;

/** Whether two shapes have the same axes. */
LK_API bool lk_shape_is_equal(lk_shape a, lk_shape b);

/** A short text by value, for messages: `lk_tensor_text(t).s`. */
typedef struct lk_short_string {
    char s[192];
} lk_short_string;

/** "[2,3]"; "[]" for a scalar. */
LK_API lk_short_string lk_shape_text(lk_shape shape);

/** A dtype, a shape, and a view of a storage.  Made on any thread; any thread may read, retain and free one,
 * and who writes elements meanwhile is the caller's to arrange.  Not collective. */
typedef struct lk_tensor lk_tensor;

/* ---- making and freeing ---- */

/**
 * Make a tensor with memory of its own, uninitialised, row-major and aligned to LK_ALIGN.
 *
 * The caller owns `*out` and releases it with lk_tensor_free().
 *
 * Errors: LK_EDTYPE, LK_EINVAL (see lk_shape_count()), LK_EOVERFLOW, LK_ENOMEM.
 */
LK_API lk_status lk_tensor_new(lk_dtype dtype, lk_shape shape, lk_tensor **out) LK_NODISCARD;

/** As lk_tensor_new(), filled with zeros. */
LK_API lk_status lk_tensor_zeros(lk_dtype dtype, lk_shape shape, lk_tensor **out) LK_NODISCARD;

/** Called once, when the last tensor on the host's memory is gone; on whichever thread that is. */
typedef void lk_release_fn(void *context);

/**
 * Make a tensor on the host's memory `data`: the elements of `shape`, row-major without gaps.
 *
 * The memory must live until `release` is called with `context`; `release` may be NULL.  If the
 * function fails, `release` is not called.  The caller owns `*out`.
 *
 * Errors: as lk_tensor_new(), and LK_EINVAL when `data` is NULL for a tensor that has elements, or
 * not aligned to the size of one.
 */
LK_API lk_status lk_tensor_wrap(lk_dtype dtype, lk_shape shape, void *data, lk_release_fn *release,
                                void *context, lk_tensor **out) LK_NODISCARD;

/** As lk_tensor_wrap(), read-only: functions that would write to it refuse. */
LK_API lk_status lk_tensor_wrap_const(lk_dtype dtype, lk_shape shape, const void *data,
                                      lk_release_fn *release, void *context,
                                      lk_tensor **out) LK_NODISCARD;

/** Add a reference to `t`; returns it.  Each is released by lk_tensor_free().  NULL is allowed. */
LK_API lk_tensor *lk_tensor_retain(lk_tensor *t);

/** Release a reference; the last one frees the tensor, and the last tensor its storage.
 * Thread safe.  NULL is allowed. */
LK_API void lk_tensor_free(lk_tensor *t);

/* ---- what it is; `t` must not be NULL ---- */

LK_API lk_dtype lk_tensor_dtype(const lk_tensor *t);
LK_API lk_shape lk_tensor_shape(const lk_tensor *t);
LK_API int64_t lk_tensor_count(const lk_tensor *t);

/** For each axis the elements from one index to the next; borrowed, valid while `t` lives. */
LK_API const int64_t *lk_tensor_strides(const lk_tensor *t);

/** Whether the elements lie in row-major order without gaps. */
LK_API bool lk_tensor_is_contiguous(const lk_tensor *t);

/** False for broadcast views, for wrapped const memory, and for views of either. */
LK_API bool lk_tensor_is_writable(const lk_tensor *t);

/** The first element, to read; borrowed, valid while `t` lives. */
LK_API const void *lk_tensor_data(const lk_tensor *t);

/** The first element, to write; borrowed.  Errors: LK_EINVAL when `t` is read-only. */
LK_API lk_status lk_tensor_writable_data(lk_tensor *t, void **out) LK_NODISCARD;

/** "f32[2,3]"; "NULL" for NULL. */
LK_API lk_short_string lk_tensor_text(const lk_tensor *t);

/* ---- views: no copy, the same memory ---- */

/**
 * The indices start, start + step, ... below stop of one axis.
 *
 * Retains t's storage; the caller owns `*out`, as with all views.
 *
 * Errors: LK_EINVAL unless `axis` is one of t's, 0 <= start <= stop <= its size, and step >= 1;
 * LK_ENOMEM.
 */
LK_API lk_status lk_tensor_slice(const lk_tensor *t, int axis, int64_t start, int64_t stop,
                                 int64_t step, lk_tensor **out) LK_NODISCARD;

/** One index of one axis, which disappears.  Errors: LK_EINVAL, LK_ENOMEM. */
LK_API lk_status lk_tensor_select(const lk_tensor *t, int axis, int64_t index,
                                  lk_tensor **out) LK_NODISCARD;

/**
 * Axis i of the result is axis `axes[i]` of t; `axes` has as many entries as t has axes.
 *
 * Errors: LK_EINVAL unless `axes` holds each axis once; LK_ENOMEM.
 */
LK_API lk_status lk_tensor_permute(const lk_tensor *t, const int *axes,
                                   lk_tensor **out) LK_NODISCARD;

/** Two axes exchanged.  Errors: LK_EINVAL, LK_ENOMEM. */
LK_API lk_status lk_tensor_transpose(const lk_tensor *t, int axis_a, int axis_b,
                                     lk_tensor **out) LK_NODISCARD;

/**
 * The same elements in row-major order under another shape.
 *
 * Always possible for a contiguous tensor; for others where the strides allow it.
 *
 * Errors: LK_ESHAPE when the counts differ; LK_ENOTSUP when it would need a copy (take
 * lk_tensor_contiguous() first); LK_EINVAL, LK_EOVERFLOW, LK_ENOMEM.
 */
LK_API lk_status lk_tensor_reshape(const lk_tensor *t, lk_shape shape,
                                   lk_tensor **out) LK_NODISCARD;

/**
 * Repeat axes of size 1, and add axes in front, so that the result has `shape`.  Read-only.
 *
 * Axes are matched from the last one backwards; each of t's is 1 or equal to its partner.
 *
 * Errors: LK_ESHAPE naming both shapes; LK_EINVAL, LK_EOVERFLOW, LK_ENOMEM.
 */
LK_API lk_status lk_tensor_broadcast(const lk_tensor *t, lk_shape shape,
                                     lk_tensor **out) LK_NODISCARD;

/* ---- elements ----
 *
 * Values are converted by one rule wherever dtypes differ:
 *
 *   to f32, f64, f16, bf16   the nearest value, ties to even, rounded once; beyond the range
 *                            infinite; a NaN keeps its sign and upper payload and becomes quiet
 *   to i32, i64, u8          a real value loses its fraction (towards zero); what is then not in
 *                            the range, and NaN, is an error, and nothing is written
 *
 * The thread's rounding mode and denormal flags do not matter.  Between equal dtypes bits are
 * copied.
 */

/**
 * dst = src, element by element, converted to dst's dtype.
 *
 * The shapes must be equal; broadcast src to repeat it.  The two must not overlap, unless they are
 * the same elements in the same order and dtype, when nothing is to be done.
 *
 * Errors: LK_ESHAPE naming both; LK_EINVAL when dst is read-only, or for a value that dst's dtype
 * cannot hold, naming its index; LK_EOVERLAP; for large ones, which threads share, those of
 * lk_threads_now() and lk_isa_now().
 */
LK_API lk_status lk_tensor_copy(const lk_tensor *src, lk_tensor *dst) LK_NODISCARD;

/** A contiguous copy with memory of its own; `dtype` may differ.  The caller owns `*out`. */
LK_API lk_status lk_tensor_clone(const lk_tensor *t, lk_dtype dtype, lk_tensor **out) LK_NODISCARD;

/** t itself, retained, if it is contiguous; otherwise a copy.  The caller owns `*out`. */
LK_API lk_status lk_tensor_contiguous(lk_tensor *t, lk_tensor **out) LK_NODISCARD;

/** Set all elements.  Errors: LK_EINVAL (read-only, or a value that the dtype cannot hold). */
LK_API lk_status lk_tensor_fill_f64(lk_tensor *t, double value) LK_NODISCARD;
LK_API lk_status lk_tensor_fill_i64(lk_tensor *t, int64_t value) LK_NODISCARD;

/**
 * Get or set the element at `index`, an LK_AT() of as many numbers as t has axes.
 *
 * Errors: LK_EINVAL for an index outside the shape, naming both; for a value that the other dtype
 * cannot hold; setting: for a read-only tensor.
 */
LK_API lk_status lk_tensor_get_f64(const lk_tensor *t, lk_shape index, double *out) LK_NODISCARD;
LK_API lk_status lk_tensor_get_i64(const lk_tensor *t, lk_shape index, int64_t *out) LK_NODISCARD;
LK_API lk_status lk_tensor_set_f64(lk_tensor *t, lk_shape index, double value) LK_NODISCARD;
LK_API lk_status lk_tensor_set_i64(lk_tensor *t, lk_shape index, int64_t value) LK_NODISCARD;

/** Whether dtype, shape and the bits of all elements are equal.  Neither may be NULL. */
LK_API bool lk_tensor_is_equal(const lk_tensor *a, const lk_tensor *b);

/**
 * Add name, dtype, shape and elements to a hash, as lk_hash_add_array() does; where the elements
 * lie does not matter.  `t` must not be NULL.
 */
LK_API void lk_tensor_hash(const lk_tensor *t, const char *name, lk_hash *h);

/**
 * Whether two tensors share a byte of memory.  Neither may be NULL.
 *
 * Exact for all views made from contiguous tensors by a few slices, selections and transposes;
 * where deciding would take more than some hundred steps, true.  So false is a promise.
 */
LK_API bool lk_tensor_overlap(const lk_tensor *a, const lk_tensor *b);

LK_END_DECLS

#endif /* LK_TENSOR_H */
