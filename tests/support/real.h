/* Operands of either real type for kernel tests: access by index, arithmetic, random contents, comparison. */
#ifndef LK_TEST_REAL_H
#define LK_TEST_REAL_H

#include "harness.h"
#include "kernel/reference/real.h"

#include <string.h>

/* The same bits, or both NaN. */
static inline bool real_same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* The first of n elements that is not the same; n if there is none. */
static inline int64_t real_differ(lk_dtype t, const void *a, const void *b, int64_t n)
{
    int64_t i = 0;
    while (i < n && real_same(real_get(t, a, i), real_get(t, b, i)))
        i++;
    return i;
}

/* A 64-bit linear congruential generator; good enough to be different everywhere. */
static inline uint32_t real_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Values in [-1, 1); with `odd`, one in eight is a zero of either sign, a denormal or infinite. */
static inline void real_fill(lk_dtype t, void *p, int64_t n, uint64_t seed, bool odd)
{
    const double tiny = t == LK_F32 ? 0x1p-140 : 0x1p-1060;
    const double special[] = {0.0, -0.0, tiny, -3 * tiny, HUGE_VAL, -HUGE_VAL};
    uint64_t state = seed;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)(int32_t)(real_random(&state) << 1) * 0x1p-31;
        uint32_t pick = real_random(&state) >> 4;
        if (odd && pick % 8 == 0) /* infinities are rare, or nothing else would be left */
            v = special[(pick >> 3) % 256 == 0 ? 4 + (pick >> 11) % 2 : (pick >> 11) % 4];
        real_set(t, p, i, v);
    }
}

/* n elements so filled; the caller frees them. */
static inline void *real_new(lk_dtype t, int64_t n, uint64_t seed, bool odd)
{
    void *p = malloc((size_t)(n + 1) * lk_dtype_size(t));
    ASSERT_TRUE(p);
    real_fill(t, p, n, seed, odd);
    return p;
}

#endif /* LK_TEST_REAL_H */
