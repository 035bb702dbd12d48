/* What the elementary functions share: bit casts, polynomials, inlining.
 *
 * The functions of f32.h and math_f64.h are scalar and free of branches, so that a loop over
 * one of them becomes vector code for each instruction set.  They are made of IEEE operations,
 * explicit fma and integer operations only: every instruction set gives the same bits.
 *
 * Polynomials are minimax fits (Remez exchange) whose coefficients were rounded to the type from
 * the lowest power up, each time fitting the remaining ones again by linear programming.  A
 * comment at the coefficients (lowest power first) tells the function, the interval and the
 * largest relative error.
 */
#ifndef LK_SIMD_MATH_BITS_H
#define LK_SIMD_MATH_BITS_H

#include "base/bits.h"

#include <math.h>

#define LK_MATH static inline __attribute__((always_inline))

/* The loop that follows has no dependence between iterations, even where y is x.  A short one has
 * so few that clang would unroll it instead of making vectors of it. */
#ifdef __clang__
#    define LK_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#    define LK_INDEPENDENT_SHORT _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#    define LK_INDEPENDENT _Pragma("GCC ivdep")
#    define LK_INDEPENDENT_SHORT LK_INDEPENDENT
#endif

/* |x| with the sign of s. */
LK_MATH float f32_with_sign(float x, float s)
{
    return lk__f32_from_bits((lk__f32_bits(x) & 0x7fffffffU) | (lk__f32_bits(s) & 0x80000000U));
}

LK_MATH double f64_with_sign(double x, double s)
{
    return lk__f64_from_bits((lk__f64_bits(x) & 0x7fffffffffffffffU) |
                             (lk__f64_bits(s) & 0x8000000000000000U));
}

/* c[0] + c[1] x + ... with 2, 3, 4, 8 or 16 coefficients: pairs of terms, then pairs of pairs,
 * because a chain of fma from the last to the first would leave the processor waiting.  x2, x4 and
 * x8 are powers of x. */
#define LK_DEFINE_POLY(T, type, fma_)                                          \
    LK_MATH type T##_poly2(type x, const type *c)                              \
    {                                                                          \
        return fma_(c[1], x, c[0]);                                            \
    }                                                                          \
    LK_MATH type T##_poly3(type x, type x2, const type *c)                     \
    {                                                                          \
        return fma_(c[2], x2, T##_poly2(x, c));                                \
    }                                                                          \
    LK_MATH type T##_poly4(type x, type x2, const type *c)                     \
    {                                                                          \
        return fma_(T##_poly2(x, c + 2), x2, T##_poly2(x, c));                 \
    }                                                                          \
    LK_MATH type T##_poly8(type x, type x2, type x4, const type *c)            \
    {                                                                          \
        return fma_(T##_poly4(x, x2, c + 4), x4, T##_poly4(x, x2, c));         \
    }                                                                          \
    LK_MATH type T##_poly16(type x, type x2, type x4, type x8, const type *c)  \
    {                                                                          \
        return fma_(T##_poly8(x, x2, x4, c + 8), x8, T##_poly8(x, x2, x4, c)); \
    }

LK_DEFINE_POLY(f32, float, fmaf)
LK_DEFINE_POLY(f64, double, fma)

#endif /* LK_SIMD_MATH_BITS_H */
