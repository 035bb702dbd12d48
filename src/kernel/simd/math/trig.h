/* Sine and cosine of floats and doubles, for every finite argument.
 *
 * |x| = k pi/2 + r with |r| <= pi/4; then sin or cos of r, with the sign that k tells.  Up to the
 * limits below, which a loop tests first, r comes from pi/2 in three parts: |x| less k times the
 * first is exact, and rounding errors of the second step go with the third.  Beyond the limits
 * trig_reduce() multiplies by 2/pi to as many bits as it takes (Payne and Hanek's method). */
#ifndef LK_SIMD_MATH_TRIG_H
#define LK_SIMD_MATH_TRIG_H

#include "kernel/simd/math/bits.h"

/* Whether |x| is within the limit; NaN is not. */
LK_MATH int f32_trig_is_near(float x)
{
    return fabsf(x) <= 0x1p17F;
}

LK_MATH int f64_trig_is_near(double x)
{
    return fabs(x) <= 0x1p20;
}

/* sin (even) or cos (odd) of r + lo, negated where bit 1 of `quadrant` is set. */
LK_MATH float f32_trig(float r, float lo, uint32_t quadrant)
{
    /* (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= 0.793: sin to 2^-27, cos to
     * 2^-32. */
    static const float s[] = {-0x1.555544p-3F, 0x1.1106c6p-7F, -0x1.991c36p-13F};
    static const float c[] = {0x1.55554ap-5F, -0x1.6c0c14p-10F, 0x1.99de6ap-16F};
    float z = r * r, z2 = z * z;
    float sine = r + fmaf(r * z, f32_poly3(z, z2, s), lo);
    float half = 0.5F * z;
    float w = 1.0F - half;
    float cosine = w + (((1.0F - w) - half) + fmaf(z2, f32_poly3(z, z2, c), -r * lo));
    float y = quadrant & 1U ? cosine : sine;
    return lk__f32_from_bits(lk__f32_bits(y) ^ (quadrant & 2U) << 30);
}

LK_MATH double f64_trig(double r, double lo, uint64_t quadrant)
{
    /* As in f32_trig(), |r| <= pi/4: sin to 2^-57, cos to 2^-63. */
    static const double s[] = {
        -0x1.5555555555548p-3, 0x1.111111110f731p-7,   -0x1.a01a019be95f7p-13,
        0x1.71de35557baf4p-19, -0x1.ae5e4bd95427fp-26, 0x1.5d8b759e3abaep-33,
    };
    static const double c[] = {
        0x1.555555555554bp-5,   -0x1.6c16c16c15015p-10, 0x1.a01a019c8f24fp-16,
        -0x1.27e4f7f190f58p-22, 0x1.1ee9dbceca25ep-29,  -0x1.8fa68479a291ep-37,
    };
    double z = r * r, z2 = z * z, z4 = z2 * z2;
    double p = fma(f64_poly2(z, s + 4), z4, f64_poly4(z, z2, s));
    double sine = r + fma(r * z, p, lo);
    double q = fma(f64_poly2(z, c + 4), z4, f64_poly4(z, z2, c));
    double half = 0.5 * z;
    double w = 1.0 - half;
    double cosine = w + (((1.0 - w) - half) + fma(z2, q, -r * lo));
    double y = quadrant & 1U ? cosine : sine;
    return lk__f64_from_bits(lk__f64_bits(y) ^ (quadrant & 2U) << 62);
}

/* For |x| up to the limit: sin of |x| + offset quarter turns.  Adding 1.5 * 2^23 rounds to an
 * integer, which then stands in the low bits of the sum; so 1.5 * 2^52 for doubles. */
LK_MATH float f32_trig_near(float x, uint32_t offset)
{
    float a = fabsf(x);
    float shifted = fmaf(a, 0x1.45f306p-1F, 0x1.8p23F);
    float k = shifted - 0x1.8p23F;
    float high = fmaf(k, -0x1.921fb6p+0F, a);
    float next = k * 0x1.777a5cp-25F;
    float next_lo = fmaf(k, 0x1.777a5cp-25F, -next);
    float r = high + next;
    float lo = ((high - r) + next) + fmaf(k, 0x1.ee59dap-50F, next_lo);
    return f32_trig(r, lo, lk__f32_bits(shifted) + offset);
}

LK_MATH double f64_trig_near(double x, uint64_t offset)
{
    double a = fabs(x);
    double shifted = fma(a, 0x1.45f306dc9c883p-1, 0x1.8p52);
    double k = shifted - 0x1.8p52;
    double high = fma(k, -0x1.921fb54442d18p+0, a);
    double next = k * -0x1.1a62633145c07p-54;
    double next_lo = fma(k, -0x1.1a62633145c07p-54, -next);
    double r = high + next;
    double lo = ((high - r) + next) + fma(k, 0x1.f1976b7ed8fbcp-110, next_lo);
    return f64_trig(r, lo, lk__f64_bits(shifted) + offset);
}

__extension__ typedef unsigned __int128 trig_wide;

/* r + lo = a - k pi/2 for a finite a >= 2^17; returns k modulo 4.
 *
 * a is an integer below 2^53 times 2^e.  Of 2/pi only 192 bits matter: those of higher weight give
 * multiples of four, those of lower weight are beyond the precision wanted. */
static inline uint64_t trig_reduce(double a, double *r, double *lo)
{
    /* 64 zeros, then the bits of 2/pi behind the point. */
    static const uint64_t two_over_pi[] = {
        0x0000000000000000U, 0xa2f9836e4e441529U, 0xfc2757d1f534ddc0U, 0xdb6295993c439041U,
        0xfe5163abdebbc561U, 0xb7246e3a424dd2e0U, 0x06492eea09d1921cU, 0xfe1deb1cb129a73eU,
        0xe88235f52ebb4484U, 0xe99c7026b45f7e41U, 0x3991d639835339f4U, 0x9c845f8bbdf9283bU,
        0x1ff897ffde05980fU, 0xef2f118b5a0a6d1fU, 0x6d367ecf27cb09b7U, 0x4f463f669e5fea2dU,
        0x7527bac7ebe5f17bU, 0x3d0739f78a5292eaU, 0x6bfb5fb11f8d5d08U, 0x56033046fc7b6babU,
    };
    uint64_t mantissa = (lk__f64_bits(a) & 0x000fffffffffffffU) | 0x0010000000000000U;
    /* The first bit that matters: times 2^e it weighs 2. */
    unsigned first = (unsigned)(lk__f64_bits(a) >> 52) - 1075U + 62U;
    uint64_t window[3];
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t *word = two_over_pi + first / 64 + i;
        window[i] = (uint64_t)(((trig_wide)word[0] << 64 | word[1]) << first % 64 >> 64);
    }
    trig_wide low = (trig_wide)mantissa * window[2];
    trig_wide mid = (trig_wide)mantissa * window[1] + (uint64_t)(low >> 64);
    uint64_t top = mantissa * window[0] + (uint64_t)(mid >> 64);
    /* Two bits of quarter turns, then the fraction: its upper half counts back from the next. */
    trig_wide fraction = ((trig_wide)top << 64 | (uint64_t)mid) << 2 | (uint64_t)low >> 62;
    uint64_t up = (uint64_t)(fraction >> 127);
    if (up)
        fraction = -fraction;
    /* The leading 106 bits, as two doubles, times pi/2. */
    int zeros = fraction >> 64 ? __builtin_clzll((uint64_t)(fraction >> 64)) : 64;
    fraction <<= zeros;
    double scale = lk__f64_from_bits((uint64_t)(1023 - 128 - zeros) << 52);
    scale = up ? -scale : scale;
    double high = (double)(int64_t)(fraction >> 75) * 0x1p75 * scale;
    double next = (double)(int64_t)(fraction >> 22 & 0x1fffffffffffffU) * 0x1p22 * scale;
    *r = high * 0x1.921fb54442d18p+0;
    *lo = fma(high, 0x1.921fb54442d18p+0, -*r) +
          fma(high, 0x1.1a62633145c07p-54, next * 0x1.921fb54442d18p+0);
    return (top >> 62) + up;
}

/* For any x: sin of |x| + offset quarter turns. */
static inline float f32_trig_any(float x, uint32_t offset)
{
    float a = fabsf(x);
    if (f32_trig_is_near(x))
        return f32_trig_near(x, offset);
    if (!(a < INFINITY))
        return NAN;
    double r, lo;
    uint64_t k = trig_reduce((double)a, &r, &lo);
    return f32_trig((float)r, (float)(r - (double)(float)r), (uint32_t)k + offset);
}

static inline double f64_trig_any(double x, uint64_t offset)
{
    double a = fabs(x);
    if (f64_trig_is_near(x))
        return f64_trig_near(x, offset);
    if (!(a < (double)INFINITY))
        return (double)NAN;
    double r, lo;
    uint64_t k = trig_reduce(a, &r, &lo);
    return f64_trig(r, lo, k + offset);
}

/* sin x = sin |x| with the sign of x multiplied in; cos x is sin |x| a quarter turn on. */
LK_MATH float f32_times_sign(float y, float x)
{
    return lk__f32_from_bits(lk__f32_bits(y) ^ (lk__f32_bits(x) & 0x80000000U));
}

LK_MATH double f64_times_sign(double y, double x)
{
    return lk__f64_from_bits(lk__f64_bits(y) ^ (lk__f64_bits(x) & 0x8000000000000000U));
}

/* For |x| up to the limit. */
LK_MATH float f32_sin_near(float x)
{
    return f32_times_sign(f32_trig_near(x, 0), x);
}

LK_MATH float f32_cos_near(float x)
{
    return f32_trig_near(x, 1);
}

LK_MATH double f64_sin_near(double x)
{
    return f64_times_sign(f64_trig_near(x, 0), x);
}

LK_MATH double f64_cos_near(double x)
{
    return f64_trig_near(x, 1);
}

/* For any x. */
static inline float f32_sin(float x)
{
    return f32_times_sign(f32_trig_any(x, 0), x);
}

static inline float f32_cos(float x)
{
    return f32_trig_any(x, 1);
}

static inline double f64_sin(double x)
{
    return f64_times_sign(f64_trig_any(x, 0), x);
}

static inline double f64_cos(double x)
{
    return f64_trig_any(x, 1);
}

#endif /* LK_SIMD_MATH_TRIG_H */
