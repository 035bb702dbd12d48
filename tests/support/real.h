/* Operands of either real type for kernel tests: access by index, random contents, comparison. */
#ifndef LK_TEST_REAL_H
#define LK_TEST_REAL_H

#include "harness.h"

#include <lockstep/dtype.h>

#include <string.h>

static inline double real_get(lk_dtype t, const void *p, int64_t i)
{
    return t == LK_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static inline void real_set(lk_dtype t, void *p, int64_t i, double v)
{
    if (t == LK_F32)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}

/* fma and addition in the type, on values of the type. */
static inline double real_fma(lk_dtype t, double a, double b, double c)
{
    return t == LK_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

static inline double real_add(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a + (float)b) : a + b;
}

/* The same bits, or both NaN. */
static inline bool real_same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
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

#endif /* LK_TEST_REAL_H */
