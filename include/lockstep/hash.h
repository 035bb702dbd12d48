/* The state hash: 64 bits (XXH64) over names, shapes and values.
 *
 * A hash is an object by value: it holds no memory, and a copy of it is a hash of its own that goes
 * on from there.  What is hashed is the same on every machine: integers as 8 bytes with the lowest
 * first, texts with their length before them, array values as their little-endian bytes.  Floating
 * point values are hashed as bits: -0 and +0 differ, and so do NaNs with different payloads.
 *
 *     lk_hash h = lk_hash_start();
 *     LK_TRY(lk_hash_add_array(&h, "fc1.weight", LK_F32, 2, dim, weights));
 *     char text[LK_HASH_TEXT];
 *     puts(lk_hash_text(lk_hash_value(&h), text));
 */
#ifndef LK_HASH_H
#define LK_HASH_H

#include <lockstep/dtype.h>

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
 * Add what comes before an array's values: its name, the name of its dtype, `ndim`, and the `ndim`
 * sizes `dim`.  The caller adds the values, in row-major order.
 */
LK_API void lk_hash_add_header(lk_hash *h, const char *name, lk_dtype dtype, int ndim,
                               const int64_t *dim);

/**
 * Add an array: its header, then its values `data`, row-major and without gaps.
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
