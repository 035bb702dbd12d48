/* Arithmetic on counts that says when the result does not fit in 64 bits. */
#ifndef LK_CHECKED_H
#define LK_CHECKED_H

#include <lockstep/status.h>

#include <stdint.h>

LK_BEGIN_DECLS

/** *out = a + b.  Not collective.  Errors: LK_EOVERFLOW naming both; `*out` is then unchanged. */
LK_API lk_status lk_add_i64(int64_t a, int64_t b, int64_t *out) LK_NODISCARD;

/** *out = a * b.  Otherwise as lk_add_i64(). */
LK_API lk_status lk_mul_i64(int64_t a, int64_t b, int64_t *out) LK_NODISCARD;

/**
 * *out = the smallest multiple of `unit` that is at least `a`.
 *
 * Errors: LK_EINVAL unless a >= 0 and unit >= 1, LK_EOVERFLOW.
 */
LK_API lk_status lk_round_up_i64(int64_t a, int64_t unit, int64_t *out) LK_NODISCARD;

/**
 * *out = v[0] * ... * v[n-1], the elements of a shape: 1 when n is 0, and 0 when a factor is 0
 * however large the others are.
 *
 * Not collective.  Errors: LK_EINVAL for a negative n or factor, naming its place, and for `v` NULL
 * with n > 0; LK_EOVERFLOW naming the factors.
 */
LK_API lk_status lk_product_i64(int n, const int64_t *v, int64_t *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_CHECKED_H */
