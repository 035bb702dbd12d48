/* Random numbers by counting: Philox4x32-10.
 *
 * A draw is a pure function of a stream, keyed by (seed, name, purpose), and a place in it, (step,
 * sample, element).  There is no state to keep, and nothing depends on which rank or thread draws,
 * or in what order: filling a range in pieces gives the same bits as filling it at once.
 *
 * One stream serves one kind of draw: give a dropout mask and an initial weight different purposes.
 *
 * Normal draws are not here: they need a logarithm and a cosine, which have canonical bits only
 * among the kernels, and are made there from these uniform ones.
 */
#ifndef LK_RNG_H
#define LK_RNG_H

#include <lockstep/status.h>

#include <stdint.h>

LK_BEGIN_DECLS

/** A stream: the key of the generator. */
typedef struct lk_rng {
    uint32_t key[2];
} lk_rng;

/** A place in a stream: 0 <= step < 2^32, 0 <= sample < 2^48, 0 <= element < 2^48. */
typedef struct lk_rng_at {
    int64_t step, sample, element;
} lk_rng_at;

/**
 * The stream of (seed, name, purpose).
 *
 * Not collective, like all functions here.  The key is the lower and the upper half of the XXH64 of
 * seed, name and purpose as hash.h adds them.  NULL counts as "".
 */
LK_API lk_rng lk_rng_start(int64_t seed, const char *name, const char *purpose);

/**
 * out[i] = the 32 bits at element + i, for i < n.
 *
 * Element e is word e mod 4 of the block whose counter is, from the lowest bit on, e / 4 (48 bits),
 * sample (48 bits) and step (32 bits).
 *
 * Errors: LK_EINVAL for n < 0, for a place out of range, and for `out` NULL with n > 0.
 */
LK_API lk_status lk_rng_bits(lk_rng rng, lk_rng_at at, int64_t n, uint32_t *out) LK_NODISCARD;

/** As lk_rng_bits(), uniform in [0, 1): the upper 24 bits times 2^-24. */
LK_API lk_status lk_rng_uniform_f32(lk_rng rng, lk_rng_at at, int64_t n, float *out) LK_NODISCARD;

/**
 * As lk_rng_bits(), uniform in [0, 1): the upper 53 of 64 bits times 2^-53.  The 64 bits of element
 * e are words 2 (e mod 2), the lower half, and 2 (e mod 2) + 1 of block e / 2.
 */
LK_API lk_status lk_rng_uniform_f64(lk_rng rng, lk_rng_at at, int64_t n, double *out) LK_NODISCARD;

/**
 * out[i] = an integer in [0, bound) at element + i, for i < n; every value is equally likely.
 *
 * Element e has block e.  Its two 64-bit halves, then those of the block that Philox makes of that
 * block taken as a counter, and so on, are candidates; the first one, c, for which the lower 64
 * bits of c * bound are at least 2^64 mod bound gives the upper 64 bits of that product.
 *
 * Errors: as lk_rng_bits(), and LK_EINVAL for bound < 1.
 */
LK_API lk_status lk_rng_below(lk_rng rng, lk_rng_at at, int64_t bound, int64_t n,
                              int64_t *out) LK_NODISCARD;

/**
 * out[i] = p(first + i) for i < n, where p is a permutation of [0, count) that belongs to the
 * stream and to `epoch`.
 *
 * Takes no memory and any part of p, so each rank asks for the samples of its own part.  p is an
 * alternating Feistel network on the smallest power of two not below count, walked until the value
 * is in range (less than two walks on average); its rounds are Philox blocks.
 *
 * Errors: LK_EINVAL unless epoch, first, n, count >= 0 and first + n <= count, and for `out` NULL
 * with n > 0.
 */
LK_API lk_status lk_rng_permute(lk_rng rng, int64_t epoch, int64_t count, int64_t first, int64_t n,
                                int64_t *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_RNG_H */
