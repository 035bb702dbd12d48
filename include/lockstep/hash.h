/* Hashes: 64 bits over bytes, names and numbers (XXH64), and of tensors (hash format 2).
 *
 * A hash is an object by value: it holds no memory, and a copy of it is a hash of its own that goes
 * on from there.  What is hashed is the same on every machine: integers as 8 bytes with the lowest
 * first, texts with their length before them.
 *
 *     lk_hash h = lk_hash_start();
 *     LK_TRY(lk_hash_add_array(&h, "fc1.weight", LK_F32, 2, dim, weights));
 *     char text[LK_HASH_TEXT];
 *     puts(lk_hash_text(lk_hash_value(&h), text));
 *
 * **Tensors** are hashed by a sum that needs no order and no whole: modulo 2^64, over all elements, of
 * mix(place, bits), where the place is the element's number in the tensor, row-major, and bits are
 * those of the element: -0 and +0 differ, and so do NaNs with different payloads.  So a rank that holds
 * a box of the tensor can add up its part, and parts are added in any order:
 *
 *     uint64_t sum = lk_hash_sum_box(LK_F32, dim, &mine, data);      on each rank
 *     ... add up the sums of ranks that together hold each element once ...
 *     lk_hash_add_tensor(&h, "fc1.weight", LK_F32, 2, dim, sum);
 *
 * is what lk_hash_add_array() adds of the whole.  docs/reference/numerics.md has the mix, with values.  It
 * tells states apart that differ by accident; it is no protection against an attacker who wants two to be
 * alike.
 */
#ifndef LK_HASH_H
#define LK_HASH_H

#include <lockstep/dtype.h>
#include <lockstep/pieces.h>

LK_BEGIN_DECLS

enum { LK_HASH_TEXT = 17 /* 16 hex digits and the final zero */ };

/** The hash of what has been added so far; start with lk_hash_start(). */
typedef struct lk_hash {
    uint64_t state[11];
} lk_hash;

/** The hash of nothing.  Not collective, like all functions here. */
LK_API lk_hash lk_hash_start(void);

/** Add `n` bytes as they are; a text or an array is better added with its length. */
LK_API void lk_hash_add_bytes(lk_hash *h, const void *bytes, size_t n);

/** Add a number. */
LK_API void lk_hash_add_i64(lk_hash *h, int64_t value);

/** Add a text: its length, then its bytes.  NULL counts as "". */
LK_API void lk_hash_add_text(lk_hash *h, const char *text);

/**
 * Add what describes an array: its name, the name of its dtype, `ndim`, and the `ndim` sizes `dim`.
 */
LK_API void lk_hash_add_header(lk_hash *h, const char *name, lk_dtype dtype, int ndim,
                               const int64_t *dim);

/** The sum of `n` elements `data` that lie side by side in their tensor, the first at `place`. */
LK_API uint64_t lk_hash_sum(lk_dtype dtype, int64_t n, const void *data, int64_t place);

/** The sum of the elements in `box`, within a tensor of the sizes dim [box->ndim]; `data` is the dense
 * array of the box. */
LK_API uint64_t lk_hash_sum_box(lk_dtype dtype, const int64_t *dim, const lk_box *box,
                                const void *data);

/** Add a tensor of which the sum of all elements is known: its header, then the sum as a number. */
LK_API void lk_hash_add_tensor(lk_hash *h, const char *name, lk_dtype dtype, int ndim,
                               const int64_t *dim, uint64_t sum);

/**
 * Add a whole tensor, whose elements `data` are row-major and without gaps: lk_hash_add_tensor().
 *
 * Arrays with equal bytes but another name, dtype or shape give another hash.
 *
 * Errors: LK_EDTYPE, LK_EINVAL (a negative size, `data` NULL with elements), LK_EOVERFLOW; `h` is
 * then unchanged.
 */
LK_API lk_status lk_hash_add_array(lk_hash *h, const char *name, lk_dtype dtype, int ndim,
                                   const int64_t *dim, const void *data) LK_NODISCARD;

/** The 64 bits of what has been added so far; more may be added later. */
LK_API uint64_t lk_hash_value(const lk_hash *h);

/** Write a value as 16 hex digits to `buf`, of LK_HASH_TEXT bytes; returns `buf`. */
LK_API const char *lk_hash_text(uint64_t value, char *buf);

LK_END_DECLS

#endif /* LK_HASH_H */
