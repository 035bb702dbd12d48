/* Elementary functions of a float; see math_bits.h for how they are written. */
#ifndef LK_SIMD_MATH_F32_H
#define LK_SIMD_MATH_F32_H

#include "kernel/simd/math_bits.h"

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
    float shifted = fmaf(x, 0x1.715476p+0F, 0x1.8p23F);
    float n = shifted - 0x1.8p23F;
    float high = fmaf(n, -0x1.62e43p-1F, x);
    float low = fmaf(n, 0x1.05c61p-29F, lo);
    float r = high + low;
    /* (e^r - 1 - r) / r^2, |r| <= ln 2 / 2: e^r - 1 to 2^-31. */
    float q = 0x1.9e782p-13F;
    q = fmaf(q, r, 0x1.6d3a58p-10F);
    q = fmaf(q, r, 0x1.1112d6p-7F);
    q = fmaf(q, r, 0x1.5554f8p-5F);
    q = fmaf(q, r, 0x1.555554p-3F);
    q = fmaf(q, r, 0.5F);
    float tail = fmaf(r * r, q, (high - r) + low);
    float m = r + tail;
    return (f32_exp_parts){m, (r - m) + tail, f32_bits(shifted) - 0x4b400000U + 254U};
}

/* v 2^n in two steps, of which the first is exact: one rounding, also to a denormal. */
LK_MATH float f32_scale(float v, uint32_t biased)
{
    uint32_t half = biased >> 1;
    return v * f32_from_bits(half << 23) * f32_from_bits((biased - half) << 23);
}

/* 2^n where that is a normal number. */
LK_MATH float f32_pow2(uint32_t biased)
{
    return f32_from_bits((biased - 127U) << 23);
}

/* (x + x_lo) / (d + d_lo) with one rounding, where the lo parts are tiny; `inverse` is 1 / d. */
LK_MATH float f32_divide_by(float x, float x_lo, float d, float d_lo, float inverse)
{
    float q = x * inverse;
    float rest = fmaf(-q, d_lo, fmaf(-q, d, x)) + x_lo;
    return fmaf(rest, inverse, q);
}

LK_MATH float f32_divide(float x, float d, float d_lo)
{
    return f32_divide_by(x, 0.0F, d, d_lo, 1.0F / d);
}

LK_MATH float f32_exp(float x)
{
    float c = x < -104.0F ? -104.0F : x;
    c = c > 89.0F ? 89.0F : c;
    f32_exp_parts e = f32_exp_split(c, 0.0F);
    return f32_scale(1.0F + e.m, e.biased);
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
    return f32_divide(x < 0.0F ? z : 1.0F, d, z - (d - 1.0F));
}

/* x Phi(x), with Phi(-a) = e^(-a^2/2) P(t) / (a + 3), t = (a - 3) / (a + 3), computed in double:
 * carrying rounding errors along in float would cost as much. */
LK_MATH float f32_gelu(float x)
{
    double a = (double)fabsf(x);
    a = a > 15.0 ? 15.0 : a;
    double w = 1.0 / (a + 3.0);
    double t = fma(w, -6.0, 1.0);
    /* (a + 3) e^(a^2/2) Phi(-a), 0 <= a <= 14.6, to 2^-30. */
    double p = 0x1.c8df16cd36692p-15;
    p = fma(p, t, 0x1.134c6bc0cc114p-13);
    p = fma(p, t, -0x1.00a3267cc59c5p-12);
    p = fma(p, t, -0x1.0eac537bdcc98p-10);
    p = fma(p, t, 0x1.0ca397fc98006p-10);
    p = fma(p, t, 0x1.c8bd86b1f6940p-8);
    p = fma(p, t, -0x1.56d5f7749a466p-7);
    p = fma(p, t, -0x1.832d0a404ee5dp-5);
    p = fma(p, t, 0x1.d7138512100c5p-3);
    p = fma(p, t, -0x1.04c729abcb9e2p-1);
    p = fma(p, t, 0x1.754a751c62450p-1);
    /* e^(-a^2/2) = 2^n (1 + r + r^2 q), |r| <= ln 2 / 2, to 2^-34. */
    double y = -0.5 * (a * a);
    double shifted = fma(y, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = shifted - 0x1.8p52;
    double r = fma(n, -0x1.62e42fefa39efp-1, y);
    double q = 0x1.9f08a251d7c3bp-13;
    q = fma(q, r, 0x1.6d8daa104f068p-10);
    q = fma(q, r, 0x1.1112717de3261p-7);
    q = fma(q, r, 0x1.55548d175e6f7p-5);
    q = fma(q, r, 0x1.5555544224b01p-3);
    q = fma(q, r, 0x1.0000003a6e3c8p-1);
    q = fma(r * r, q, r);
    double tail = p * w * f64_from_bits((f64_bits(shifted) + 1023U) << 52);
    tail = fma(tail, q, tail);
    return (float)(x >= 0.0F ? (double)x * (1.0 - tail) : -a * tail);
}

#endif /* LK_SIMD_MATH_F32_H */
