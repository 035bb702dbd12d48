/* The bits of a floating-point number as an integer, and back: memcpy(), so that it is defined in
 * C.  Inline, for kernels, hashes, f16 and file formats. */
#ifndef LK_BASE_BITS_H
#define LK_BASE_BITS_H

#include <stdint.h>
#include <string.h>

#define LK_BITS static inline __attribute__((always_inline))

LK_BITS uint32_t lk__f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

LK_BITS float lk__f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

LK_BITS uint64_t lk__f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

LK_BITS double lk__f64_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#endif /* LK_BASE_BITS_H */
