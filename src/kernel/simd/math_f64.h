/* Elementary functions of a double; see math_bits.h for how they are written. */
#ifndef LK_SIMD_MATH_F64_H
#define LK_SIMD_MATH_F64_H

#include "kernel/simd/math_bits.h"

/* e^(x + lo) = 2^n (1 + m + m_lo) with |m| < 0.42, m_lo its rounding error; `biased` is
 * n + 2 * 1023.  |x| < 1500, lo tiny.
 *
 * Adding 1.5 * 2^52 rounds to an integer, which then stands in the low bits of the sum. */
typedef struct f64_exp_parts {
    double m, m_lo;
    uint64_t biased;
} f64_exp_parts;

LK_MATH f64_exp_parts f64_exp_split(double x, double lo)
{
    double shifted = fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = shifted - 0x1.8p52;
    double high = fma(n, -0x1.62e42fefa39efp-1, x);
    double low = fma(n, -0x1.abc9e3b39803fp-56, lo);
    double r = high + low;
    /* (e^r - 1 - r) / r^2, |r| <= ln 2 / 2: e^r - 1 to 2^-61. */
    double q = 0x1.1f2a28f894015p-29;
    q = fma(q, r, 0x1.af5d4470b70c9p-26);
    q = fma(q, r, 0x1.27e502a4624d3p-22);
    q = fma(q, r, 0x1.71ddf92391e84p-19);
    q = fma(q, r, 0x1.a01a0199c0733p-16);
    q = fma(q, r, 0x1.a01a01af9e611p-13);
    q = fma(q, r, 0x1.6c16c16c174bbp-10);
    q = fma(q, r, 0x1.111111110f713p-7);
    q = fma(q, r, 0x1.5555555555558p-5);
    q = fma(q, r, 0x1.5555555555559p-3);
    q = fma(q, r, 0.5);
    double tail = fma(r * r, q, (high - r) + low);
    double m = r + tail;
    return (f64_exp_parts){m, (r - m) + tail, f64_bits(shifted) - 0x4338000000000000U + 2046U};
}

/* v 2^n in two steps, of which the first is exact: one rounding, also to a denormal. */
LK_MATH double f64_scale(double v, uint64_t biased)
{
    uint64_t half = biased >> 1;
    return v * f64_from_bits(half << 52) * f64_from_bits((biased - half) << 52);
}

/* 2^n where that is a normal number. */
LK_MATH double f64_pow2(uint64_t biased)
{
    return f64_from_bits((biased - 1023U) << 52);
}

/* (x + x_lo) / (d + d_lo) with one rounding, where the lo parts are tiny; `inverse` is 1 / d. */
LK_MATH double f64_divide_by(double x, double x_lo, double d, double d_lo, double inverse)
{
    double q = x * inverse;
    double rest = fma(-q, d_lo, fma(-q, d, x)) + x_lo;
    return fma(rest, inverse, q);
}

LK_MATH double f64_divide(double x, double d, double d_lo)
{
    return f64_divide_by(x, 0.0, d, d_lo, 1.0 / d);
}

LK_MATH double f64_exp(double x)
{
    double c = x < -746.0 ? -746.0 : x;
    c = c > 710.0 ? 710.0 : c;
    f64_exp_parts e = f64_exp_split(c, 0.0);
    return f64_scale(1.0 + e.m, e.biased);
}

/* e^x - 1 for -38 <= x <= 40, with its rounding error; below -38 it is -1. */
LK_MATH double f64_expm1_part(double x, double *lo)
{
    f64_exp_parts e = f64_exp_split(x, 0.0);
    double s = f64_pow2(e.biased);
    double y = fma(s, e.m, s - 1.0);
    *lo = fma(s, e.m_lo, fma(s, e.m, (s - 1.0) - y));
    return y;
}

/* t / (t + 2) with t = e^(2|x|) - 1. */
LK_MATH double f64_tanh(double x)
{
    double a = fabs(x), t_lo;
    a = a > 19.5 ? 19.5 : a;
    double t = f64_expm1_part(a + a, &t_lo);
    double d = t + 2.0;
    double d_lo = (t - (d - 2.0)) + t_lo;
    return f64_with_sign(f64_divide_by(t, t_lo, d, d_lo, 1.0 / d), x);
}

/* 1 / (1 + z) or z / (1 + z) with z = e^-|x|, which cannot overflow. */
LK_MATH double f64_sigmoid(double x)
{
    double z = f64_exp(-fabs(x));
    double d = 1.0 + z;
    return f64_divide(x < 0.0 ? z : 1.0, d, z - (d - 1.0));
}

/* (a + k) e^(a^2/2) Phi(-a) as a function of t = (a - k) / (a + k), k = 3.375, 0 <= a <= 38.7, to
 * 2^-58.  This k keeps the terms falling, and its first two coefficients are nearly doubles. */
LK_MATH double f64_gelu_tail(double t, double *lo)
{
    double p = 0x1.a590e0a9d50c1p-31;
    p = fma(p, t, 0x1.c21c13d2d2f62p-29);
    p = fma(p, t, 0x1.c0ce90084f1efp-32);
    p = fma(p, t, -0x1.5b555088bbadep-26);
    p = fma(p, t, -0x1.18830b42d8afbp-25);
    p = fma(p, t, 0x1.67a5f86c483a6p-25);
    p = fma(p, t, 0x1.a1c09fb334268p-23);
    p = fma(p, t, 0x1.e14f659c9f2fep-24);
    p = fma(p, t, -0x1.56d4c8f3e6d5ep-21);
    p = fma(p, t, -0x1.7063787b84c1bp-20);
    p = fma(p, t, 0x1.02aca0ec3aa1fp-20);
    p = fma(p, t, 0x1.f4cbd71b14208p-18);
    p = fma(p, t, 0x1.0c762239f6256p-18);
    p = fma(p, t, -0x1.137b9d41a1d12p-15);
    p = fma(p, t, -0x1.9e6796206364ep-15);
    p = fma(p, t, 0x1.319d45cbdff48p-13);
    p = fma(p, t, 0x1.750ae2cce103dp-12);
    p = fma(p, t, -0x1.ba50351ef558fp-11);
    p = fma(p, t, -0x1.2930d9954fc59p-9);
    p = fma(p, t, 0x1.004f5cbd40d4cp-7);
    p = fma(p, t, 0x1.1dca11e170407p-7);
    p = fma(p, t, -0x1.92fb2bbf67a82p-4);
    p = fma(p, t, 0x1.2e76fe485255bp-2);
    p = fma(p, t, -0x1.1b21cbf68ce97p-1);
    double sum = fma(p, t, 0x1.7b6edfe348c3ap-1);
    *lo = fma(p, t, 0x1.7b6edfe348c3ap-1 - sum);
    return sum;
}

/* x Phi(x), with Phi(-a) = e^(-a^2/2) P(t) / (a + k), t = (a - k) / (a + k), k = 3.375. */
LK_MATH double f64_gelu(double x)
{
    double a = fabs(x);
    a = a > 39.0 ? 39.0 : a;
    double d = a + 3.375;
    double d_lo = a - (d - 3.375);
    double inverse = 1.0 / d;
    double p_lo, p = f64_gelu_tail(f64_divide_by(a - 3.375, 0.0, d, d_lo, inverse), &p_lo);
    double square = a * a;
    f64_exp_parts e = f64_exp_split(-0.5 * square, -0.5 * fma(a, a, -square));
    /* a P (1 + m), then the division, both with the rounding error carried along. */
    double v = a * p;
    double rest = fma(v, e.m, fma(a, p_lo, fma(a, p, -v)));
    double sum = v + rest;
    double tail = f64_divide_by(sum, (v - sum) + rest, d, d_lo, inverse);
    tail = f64_scale(tail, e.biased);
    return x >= 0.0 ? x - tail : -tail;
}

#endif /* LK_SIMD_MATH_F64_H */
