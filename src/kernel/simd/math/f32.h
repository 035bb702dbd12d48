/* Elementary functions of a float; see bits.h for how they are written. */
#ifndef LK_SIMD_MATH_F32_H
#define LK_SIMD_MATH_F32_H

#include "kernel/simd/math/bits.h"

/* e^(x + lo) = 2^n (1 + m + m_lo) with |m| < 0.42, m_lo its rounding error; `biased` is
 * n + 2 * 127.  |x| < 200, lo tiny.
 *
 * Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits of the sum. */
typedef struct f32_exp_parts {
    float m, m_lo;
    uint32_t biased;
} f32_exp_parts;

LK_MATH f32_exp_parts f32_exp_split(float x, float lo)
{
    /* (e^r - 1 - r) / r^2, |r| <= ln 2 / 2: e^r - 1 to 2^-31. */
    static const float c[] = {0.5F,           0x1.555554p-3F,  0x1.5554f8p-5F,
                              0x1.1112d6p-7F, 0x1.6d3a58p-10F, 0x1.9e782p-13F};
    float shifted = fmaf(x, 0x1.715476p+0F, 0x1.8p23F);
    float n = shifted - 0x1.8p23F;
    float high = fmaf(n, -0x1.62e43p-1F, x);
    float low = fmaf(n, 0x1.05c61p-29F, lo);
    float r = high + low;
    float r2 = r * r;
    float q = fmaf(f32_poly2(r, c + 4), r2 * r2, f32_poly4(r, r2, c));
    float tail = fmaf(r2, q, (high - r) + low);
    float m = r + tail;
    return (f32_exp_parts){m, (r - m) + tail, lk__f32_bits(shifted) - 0x4b400000U + 254U};
}

/* v 2^n in two steps, of which the first is exact: one rounding, also to a denormal. */
LK_MATH float f32_scale(float v, uint32_t biased)
{
    uint32_t half = biased >> 1;
    return v * lk__f32_from_bits(half << 23) * lk__f32_from_bits((biased - half) << 23);
}

/* 2^n where that is a normal number. */
LK_MATH float f32_pow2(uint32_t biased)
{
    return lk__f32_from_bits((biased - 127U) << 23);
}

/* (x + x_lo) / (d + d_lo) with one rounding, where the lo parts are tiny; `inverse` is 1 / d. */
LK_MATH float f32_divide_by(float x, float x_lo, float d, float d_lo, float inverse)
{
    float q = x * inverse;
    float rest = fmaf(-q, d_lo, fmaf(-q, d, x)) + x_lo;
    return fmaf(rest, inverse, q);
}

/* e^x and its rounding error. */
LK_MATH float f32_exp_pair(float x, float *lo)
{
    float c = x < -104.0F ? -104.0F : x;
    c = c > 89.0F ? 89.0F : c;
    f32_exp_parts e = f32_exp_split(c, 0.0F);
    float y = 1.0F + e.m;
    *lo = f32_scale(((1.0F - y) + e.m) + e.m_lo, e.biased);
    return f32_scale(y, e.biased);
}

LK_MATH float f32_exp(float x)
{
    float lo;
    return f32_exp_pair(x, &lo);
}

/* The same for x <= 0 or NaN in fewer steps: times 2^(n + 64), which is exact, and 2^-64. */
LK_MATH float f32_exp_below(float x)
{
    f32_exp_parts e = f32_exp_split(x < -104.0F ? -104.0F : x, 0.0F);
    return (1.0F + e.m) * lk__f32_from_bits((e.biased - 63U) << 23) * 0x1p-64F;
}

/* e^x - 1 for -18 <= x <= 20, with its rounding error; below -18 it is -1. */
LK_MATH float f32_expm1_part(float x, float *lo)
{
    f32_exp_parts e = f32_exp_split(x, 0.0F);
    float s = f32_pow2(e.biased);
    float y = fmaf(s, e.m, s - 1.0F);
    *lo = fmaf(s, e.m_lo, fmaf(s, e.m, (s - 1.0F) - y));
    return y;
}

/* t / (t + 2) with t = e^(2|x|) - 1. */
LK_MATH float f32_tanh(float x)
{
    float a = fabsf(x), t_lo;
    a = a > 9.5F ? 9.5F : a;
    float t = f32_expm1_part(a + a, &t_lo);
    float d = t + 2.0F;
    float d_lo = (t - (d - 2.0F)) + t_lo;
    return f32_with_sign(f32_divide_by(t, t_lo, d, d_lo, 1.0F / d), x);
}

/* 1 / (1 + z) or z / (1 + z) with z = e^-|x|, which cannot overflow. */
LK_MATH float f32_sigmoid(float x)
{
    float z = f32_exp(-fabsf(x));
    float d = 1.0F + z;
    return f32_divide_by(x < 0.0F ? z : 1.0F, 0.0F, d, z - (d - 1.0F), 1.0F / d);
}

LK_MATH float f32_elu(float x, float p)
{
    float lo;
    float y = p * f32_expm1_part(x < -18.0F ? -18.0F : x > 0.0F ? 0.0F : x, &lo);
    return x < 0.0F ? y : x;
}

/* log(1 + f) = f - (f^2/2 - s (f^2/2 + z R(z))), s = f / (2 + f), z = s^2: all but the f. */
LK_MATH float f32_log_rest(float f, float s, float r)
{
    float half = 0.5F * f * f;
    return half - s * (half + r);
}

LK_MATH float f32_log(float x)
{
    /* (2 atanh(s) / s - 2) / s^2 in s^2, |s| <= (sqrt 2 - 1) / (sqrt 2 + 1): atanh to 2^-30. */
    static const float c[] = {0x1.55557ap-1F, 0x1.995eccp-2F, 0x1.31e23ep-2F};
    float big = x < 0x1p-126F ? x * 0x1p25F : x;
    uint32_t u = lk__f32_bits(big) + (0x3f800000U - 0x3f3504f3U);
    float e = (float)(int32_t)(u >> 23) - (x < 0x1p-126F ? 152.0F : 127.0F);
    float f = lk__f32_from_bits((u & 0x007fffffU) + 0x3f3504f3U) - 1.0F;
    float s = f / (2.0F + f);
    float z = s * s;
    float rest = f32_log_rest(f, s, z * f32_poly3(z, z * z, c));
    /* e ln 2 + f - rest; e times the first part of ln 2 is exact. */
    float high = fmaf(e, 0x1.62ep-1F, f);
    float low = fmaf(e, 0x1.62ep-1F, -high) + f;
    float y = high + (fmaf(e, 0x1.0bfbe8p-15F, low) - rest);
    y = x < INFINITY ? y : x;
    y = x == 0.0F ? -INFINITY : y;
    return x < 0.0F ? NAN : y;
}

/* max(x, 0) + log(1 + z) with z = e^-|x|. */
LK_MATH float f32_softplus(float x)
{
    /* As in f32_log(), but for s <= 1/3: to 2^-33. */
    static const float c[] = {0x1.555558p-1F, 0x1.9996d6p-2F, 0x1.25056ap-2F, 0x1.b721d6p-3F,
                              0x1.f0b6fcp-3F};
    float z_lo, z = f32_exp_pair(-fabsf(x), &z_lo);
    float s = z / (2.0F + z);
    float w = s * s, w2 = w * w;
    float r = fmaf(c[4], w2 * w2, f32_poly4(w, w2, c));
    /* The rounding errors of m + z, whichever is the larger, and of z go with the rest; times
     * 1 - z/2 is nearly divided by 1 + z. */
    float m = x > 0.0F ? x : 0.0F;
    float y = m + z, part = y - m;
    float y_lo = (m - (y - part)) + (z - part);
    y_lo = fmaf(z_lo, fmaf(-0.5F, z, 1.0F), y_lo);
    y += y_lo - f32_log_rest(z, s, w * r);
    return x > 40.0F ? x : y; /* infinity above all */
}

/* x + x P(x^2) below 1, 1 - e^Q(|x|) from there on. */
LK_MATH float f32_erf(float x)
{
    /* erf(x) / x - 1 in x^2, |x| <= 1: erf to 2^-29. */
    static const float p[] = {0x1.06eba8p-3F, -0x1.81273ep-2F,  0x1.ce2ce6p-4F, -0x1.b7f71ap-6F,
                              0x1.53f224p-8F, -0x1.a3515ep-11F, 0x1.4771fcp-14F};
    /* log(1 - erf(x)), 1 <= x <= 3.95: erf to 2^-30. */
    static const float q[] = {-0x1.6624eap-12F, -0x1.2088e8p+0F, -0x1.46baf8p-1F, -0x1.a652dp-4F,
                              0x1.65ca58p-6F,   -0x1.82582p-9F,  0x1.86d7ccp-13F};
    float z = x * x, z2 = z * z;
    float near = fmaf(x, fmaf(f32_poly3(z, z2, p + 4), z2 * z2, f32_poly4(z, z2, p)), x);
    float a = fabsf(x);
    float b = a < 3.95F ? a : 3.95F, b2 = b * b;
    f32_exp_parts e = f32_exp_split(fmaf(f32_poly3(b, b2, q + 4), b2 * b2, f32_poly4(b, b2, q)),
                                    0.0F);
    float s = f32_pow2(e.biased);
    float far = f32_with_sign(fmaf(-s, e.m, 1.0F - s), x);
    return a >= 1.0F ? far : near;
}

/* e^x for |x| < 1000 to 2^-34, for results that are rounded to float. */
LK_MATH double f32_exp_wide(double x)
{
    /* (e^r - 1 - r) / r^2, |r| <= ln 2 / 2. */
    static const double c[] = {0x1.0000003a6e3c8p-1, 0x1.5555544224b01p-3,  0x1.55548d175e6f7p-5,
                               0x1.1112717de3261p-7, 0x1.6d8daa104f068p-10, 0x1.9f08a251d7c3bp-13};
    double shifted = fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
    double r = fma(shifted - 0x1.8p52, -0x1.62e42fefa39efp-1, x);
    double r2 = r * r;
    double q = fma(f64_poly2(r, c + 4), r2 * r2, f64_poly4(r, r2, c));
    return fma(r2, q, 1.0 + r) * lk__f64_from_bits((lk__f64_bits(shifted) + 1023U) << 52);
}

/* x Phi(x), with Phi(-a) = e^(-a^2/2) P(t) / (a + 1.125), t = (a - 4) / (a + 4), and its slope
 * Phi(x) + x f(x), f the density: for -a it is e^(-a^2/2) (P(t) / (a + 1.125) - a / sqrt(2 pi)), and
 * those of x and -x add up to 1.
 *
 * P varies so little that almost only the rounding of its last sum counts, which is carried along, as
 * are those of a^2, of a P (1 + m) and of the division. */
LK_MATH float f32_gelu_slope(float x, float *slope)
{
    /* (a + 1.125) e^(a^2/2) Phi(-a) in t, 0 <= a <= 14.6, to 2^-26. */
    static const float c[] = {0x1.ef779p-2F,   -0x1.e3575p-4F,   0x1.e41abp-6F,   0x1.41bb3ep-6F,
                              -0x1.d062fep-6F, 0x1.1472d2p-6F,   -0x1.4296f2p-8F, -0x1.98f068p-13F,
                              0x1.56721cp-11F, -0x1.d6e6c6p-14F, -0x1.767914p-14F};
    float a = fabsf(x);
    a = a > 15.0F ? 15.0F : a;
    float t = (a - 4.0F) / (a + 4.0F);
    float t2 = t * t, t4 = t2 * t2;
    float q = fmaf(f32_poly2(t, c + 9), t4 * t4, f32_poly8(t, t2, t4, c + 1));
    float p = fmaf(q, t, c[0]);
    float p_lo = fmaf(q, t, c[0] - p);
    float square = a * a;
    f32_exp_parts e = f32_exp_split(-0.5F * square, -0.5F * fmaf(a, a, -square));
    float d = a + 1.125F, inverse = 1.0F / d;
    float v = a * p;
    float rest = fmaf(a, p_lo, fmaf(a, p, -v));
    rest = fmaf(v, e.m, fmaf(v, e.m_lo, rest));
    float sum = v + rest;
    float tail = f32_divide_by(sum, (v - sum) + rest, d, a - (d - 1.125F), inverse);
    tail = f32_scale(tail, e.biased);
    float low = fmaf(p, inverse, a * -0x1.988454p-2F);
    low = f32_scale(fmaf(low, e.m, low), e.biased);
    *slope = x >= 0.0F ? 1.0F - low : low;
    return x >= 0.0F ? x - tail : -tail;
}

LK_MATH float f32_gelu(float x)
{
    float slope;
    return f32_gelu_slope(x, &slope);
}

/* Whether a non-negative y is an integer; NaN is none. */
LK_MATH int f32_is_integer(float y)
{
    float r = y < 0x1p23F ? (y + 0x1p23F) - 0x1p23F : y;
    return r == y;
}

/* log |x| for a normal x > 0 to 2^-44, for results that are rounded to float. */
LK_MATH double f32_log_wide(double x)
{
    /* As in f32_log(). */
    static const double c[] = {0x1.555555561f33ap-1, 0x1.999996a67ea20p-2, 0x1.249413342c5c7p-2,
                               0x1.c62aa14f9bf2cp-3, 0x1.911c81f4de30cp-3};
    uint64_t u = lk__f64_bits(x) + (0x3ff0000000000000U - 0x3fe6a09e667f3bcdU);
    double e = lk__f64_from_bits((u >> 52) | 0x4330000000000000U) - (0x1p52 + 1023.0);
    double m = lk__f64_from_bits((u & 0x000fffffffffffffU) + 0x3fe6a09e667f3bcdU);
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s, z2 = z * z;
    double r = fma(c[4], z2 * z2, f64_poly4(z, z2, c));
    return fma(e, 0x1.62e42fefa39efp-1, fma(s * z, r, s + s));
}

/* x^y = e^(y log x) in double for a finite x > 0 and a finite y. */
LK_MATH float f32_pow_usual(float x, float y)
{
    float b = fabsf(y), bounded = f32_with_sign(b < 0x1p40F ? b : 0x1p40F, y);
    double w = (double)bounded * f32_log_wide((double)x);
    w = w < -200.0 ? -200.0 : w;
    w = w > 200.0 ? 200.0 : w;
    return (float)f32_exp_wide(w);
}

/* |x|^y, then the sign and the many special cases of the C standard. */
LK_MATH float f32_pow(float x, float y)
{
    float a = fabsf(x), b = fabsf(y);
    float r = f32_pow_usual(a, y);
    float edge = (a == 0.0F) == (y > 0.0F) ? 0.0F : INFINITY;
    r = a == 0.0F || a == INFINITY ? edge : r;
    int odd = f32_is_integer(b) & !f32_is_integer(0.5F * b);
    r = odd ? f32_with_sign(r, x) : r;
    r = x < 0.0F && a < INFINITY && !f32_is_integer(b) ? NAN : r;
    r = x != x || y != y ? x + y : r;
    return x == 1.0F || y == 0.0F ? 1.0F : r;
}

#endif /* LK_SIMD_MATH_F32_H */
