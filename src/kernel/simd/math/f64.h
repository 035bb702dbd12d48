/* Elementary functions of a double; see bits.h for how they are written. */
#ifndef LK_SIMD_MATH_F64_H
#define LK_SIMD_MATH_F64_H

#include "kernel/simd/math/bits.h"

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
    /* (e^r - 1 - r) / r^2, |r| <= ln 2 / 2: e^r - 1 to 2^-61. */
    static const double c[] = {
        0.5,
        0x1.5555555555559p-3,
        0x1.5555555555558p-5,
        0x1.111111110f713p-7,
        0x1.6c16c16c174bbp-10,
        0x1.a01a01af9e611p-13,
        0x1.a01a0199c0733p-16,
        0x1.71ddf92391e84p-19,
        0x1.27e502a4624d3p-22,
        0x1.af5d4470b70c9p-26,
        0x1.1f2a28f894015p-29,
    };
    double shifted = fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = shifted - 0x1.8p52;
    double high = fma(n, -0x1.62e42fefa39efp-1, x);
    double low = fma(n, -0x1.abc9e3b39803fp-56, lo);
    double r = high + low;
    double r2 = r * r, r4 = r2 * r2;
    double q = fma(f64_poly3(r, r2, c + 8), r4 * r4, f64_poly8(r, r2, r4, c));
    double tail = fma(r2, q, (high - r) + low);
    double m = r + tail;
    return (f64_exp_parts){m, (r - m) + tail, lk__f64_bits(shifted) - 0x4338000000000000U + 2046U};
}

/* v 2^n in two steps, of which the first is exact: one rounding, also to a denormal. */
LK_MATH double f64_scale(double v, uint64_t biased)
{
    uint64_t half = biased >> 1;
    return v * lk__f64_from_bits(half << 52) * lk__f64_from_bits((biased - half) << 52);
}

/* 2^n where that is a normal number. */
LK_MATH double f64_pow2(uint64_t biased)
{
    return lk__f64_from_bits((biased - 1023U) << 52);
}

/* (x + x_lo) / (d + d_lo) with one rounding, where the lo parts are tiny; `inverse` is 1 / d. */
LK_MATH double f64_divide_by(double x, double x_lo, double d, double d_lo, double inverse)
{
    double q = x * inverse;
    double rest = fma(-q, d_lo, fma(-q, d, x)) + x_lo;
    return fma(rest, inverse, q);
}

/* e^x and its rounding error. */
LK_MATH double f64_exp_pair(double x, double *lo)
{
    double c = x < -746.0 ? -746.0 : x;
    c = c > 710.0 ? 710.0 : c;
    f64_exp_parts e = f64_exp_split(c, 0.0);
    double y = 1.0 + e.m;
    *lo = f64_scale(((1.0 - y) + e.m) + e.m_lo, e.biased);
    return f64_scale(y, e.biased);
}

LK_MATH double f64_exp(double x)
{
    double lo;
    return f64_exp_pair(x, &lo);
}

/* The same for x <= 0 or NaN in fewer steps: times 2^(n + 64), which is exact, and 2^-64. */
LK_MATH double f64_exp_below(double x)
{
    f64_exp_parts e = f64_exp_split(x < -746.0 ? -746.0 : x, 0.0);
    return (1.0 + e.m) * lk__f64_from_bits((e.biased - 959U) << 52) * 0x1p-64;
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
    return f64_divide_by(x < 0.0 ? z : 1.0, 0.0, d, z - (d - 1.0), 1.0 / d);
}

LK_MATH double f64_elu(double x, double p)
{
    double lo;
    double y = p * f64_expm1_part(x < -38.0 ? -38.0 : x > 0.0 ? 0.0 : x, &lo);
    return x < 0.0 ? y : x;
}

/* log(1 + f) = f - (f^2/2 - s (f^2/2 + z R(z))), s = f / (2 + f), z = s^2: all but the f. */
LK_MATH double f64_log_rest(double f, double s, double r)
{
    double half = 0.5 * f * f;
    return half - s * (half + r);
}

/* x = 2^e m with sqrt(1/2) <= m < sqrt 2, for a finite x > 0. */
typedef struct f64_log_parts {
    double e, m;
} f64_log_parts;

LK_MATH f64_log_parts f64_log_split(double x)
{
    double big = x < 0x1p-1022 ? x * 0x1p54 : x;
    double bias = x < 0x1p-1022 ? 0x1p52 + 1077.0 : 0x1p52 + 1023.0;
    uint64_t u = lk__f64_bits(big) + (0x3ff0000000000000U - 0x3fe6a09e667f3bcdU);
    return (f64_log_parts){
        lk__f64_from_bits((u >> 52) | 0x4330000000000000U) - bias,
        lk__f64_from_bits((u & 0x000fffffffffffffU) + 0x3fe6a09e667f3bcdU),
    };
}

LK_MATH double f64_log(double x)
{
    /* (2 atanh(s) / s - 2) / s^2 in s^2, |s| <= (sqrt 2 - 1) / (sqrt 2 + 1): atanh to 2^-59. */
    static const double c[] = {
        0x1.5555555555593p-1, 0x1.999999997f9edp-2, 0x1.249249422b277p-2, 0x1.c71c51d6faacfp-3,
        0x1.746649de81f00p-3, 0x1.39a090998cc1cp-3, 0x1.2f11b2a497829p-3,
    };
    f64_log_parts p = f64_log_split(x);
    double f = p.m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s, z2 = z * z;
    double r = fma(f64_poly3(z, z2, c + 4), z2 * z2, f64_poly4(z, z2, c));
    double rest = f64_log_rest(f, s, z * r);
    /* e ln 2 + f - rest; e times the first part of ln 2 is exact. */
    double high = fma(p.e, 0x1.62e42fefa3800p-1, f);
    double low = fma(p.e, 0x1.62e42fefa3800p-1, -high) + f;
    double y = high + (fma(p.e, 0x1.ef35793c76730p-45, low) - rest);
    y = x < (double)INFINITY ? y : x;
    y = x == 0.0 ? -(double)INFINITY : y;
    return x < 0.0 ? (double)NAN : y;
}

/* max(x, 0) + log(1 + z) with z = e^-|x|. */
LK_MATH double f64_softplus(double x)
{
    /* As in f64_log(), but for s <= 1/3: to 2^-64. */
    static const double c[] = {
        0x1.5555555555556p-1, 0x1.9999999999654p-2, 0x1.24924924ba770p-2, 0x1.c71c71a98b13dp-3,
        0x1.745d1d78109e4p-3, 0x1.3b12e2d3e5e85p-3, 0x1.11227c49e295fp-3, 0x1.dff27a819c157p-4,
        0x1.c10c23b034dddp-4, 0x1.1fdfcc49ef84fp-4, 0x1.502e0ef3096e7p-3,
    };
    double z_lo, z = f64_exp_pair(-fabs(x), &z_lo);
    double s = z / (2.0 + z);
    double w = s * s, w2 = w * w, w4 = w2 * w2;
    double r = fma(f64_poly3(w, w2, c + 8), w4 * w4, f64_poly8(w, w2, w4, c));
    /* The rounding errors of m + z, whichever is the larger, and of z go with the rest; times
     * 1 - z/2 is nearly divided by 1 + z. */
    double m = x > 0.0 ? x : 0.0;
    double y = m + z, part = y - m;
    double y_lo = (m - (y - part)) + (z - part);
    y_lo = fma(z_lo, fma(-0.5, z, 1.0), y_lo);
    y += y_lo - f64_log_rest(z, s, w * r);
    return x > 40.0 ? x : y; /* infinity above all */
}

/* x + x P(x^2) below 1, 1 - e^Q(|x|) from there on. */
LK_MATH double f64_erf(double x)
{
    /* erf(x) / x - 1 in x^2, |x| <= 1: erf to 2^-56. */
    static const double p[] = {
        0x1.06eba8214db69p-3,   -0x1.812746b037a26p-2,  0x1.ce2f21a0459eap-4,
        -0x1.b82ce3135b01dp-6,  0x1.565bcd2d7bcfap-8,   -0x1.c02db96bfc99ap-11,
        0x1.f9a3c07c6915dp-14,  -0x1.f4dd872a697aap-17, 0x1.ba7129a0a3a9fp-20,
        -0x1.63d9e291c7195p-23, 0x1.14c140d46b405p-26,  -0x1.cf51de9605936p-30,
        0x1.4aa3d95e7c953p-33,
    };
    /* log(1 - erf(x)), 1 <= x <= 5.95: erf to 2^-59. */
    static const double q[] = {
        -0x1.81d5ca029fd54p-23, -0x1.20dd562caa8f7p+0,  -0x1.45f42b6a8292dp-1,
        -0x1.a4da4bbbbbf6fp-4,  0x1.389386e388dd8p-6,   0x1.26229d2b871abp-12,
        -0x1.cfbd30b6db421p-10, 0x1.502b814e82e4fp-11,  -0x1.781e504e4c9e8p-15,
        -0x1.271b06c3eea22p-14, 0x1.79c564d74edfdp-15,  -0x1.15096ccf3dd19p-16,
        0x1.225c0501fa4c0p-18,  -0x1.c89bc2b6e5ebep-21, 0x1.0dec613c40decp-23,
        -0x1.d429287b3c928p-27, 0x1.19e907120a0b0p-30,  -0x1.a5cfc6483e558p-35,
        0x1.27670bac3194dp-40,
    };
    double z = x * x, z2 = z * z, z4 = z2 * z2, z8 = z4 * z4;
    double near = fma(fma(p[12], z4, f64_poly4(z, z2, p + 8)), z8, f64_poly8(z, z2, z4, p));
    near = fma(x, near, x);
    double a = fabs(x);
    double b = a < 5.95 ? a : 5.95, b2 = b * b, b4 = b2 * b2, b8 = b4 * b4;
    double far = fma(f64_poly3(b, b2, q + 16), b8 * b8, f64_poly16(b, b2, b4, b8, q));
    f64_exp_parts e = f64_exp_split(far, 0.0);
    double s = f64_pow2(e.biased);
    far = f64_with_sign(fma(-s, e.m, 1.0 - s), x);
    return a >= 1.0 ? far : near;
}

/* (a + 1.125) e^(a^2/2) Phi(-a) in t = (a - 5.5) / (a + 5.5), 0 <= a <= 38.7, to 2^-57.  It varies
 * so little that almost only the rounding of the last sum and of c[0] count, which are lo. */
LK_MATH double f64_gelu_tail(double t, double *lo)
{
    static const double c[] = {
        0x1.dd34702649835p-2,   -0x1.adbe7f73111d7p-4,  0x1.9a1562682844dp-5,
        -0x1.0787cac381278p-7,  -0x1.e3e0e42977406p-7,  0x1.5139cdf94e970p-6,
        -0x1.0ddbd39f17d32p-6,  0x1.38f5cf36edf88p-7,   -0x1.0a7f2c8913cb4p-8,
        0x1.294686056e17ap-10,  -0x1.7207eccfb425dp-14, -0x1.68f682b124639p-14,
        0x1.40b7eff84718ap-15,  -0x1.b1d5cf7d6e4b4p-21, -0x1.316972d612cd2p-18,
        0x1.1f9ffcfb6999ep-20,  0x1.cc41e9f663a89p-22,  -0x1.cb558b0fe8f0fp-23,
        -0x1.59a8b7253e618p-25, 0x1.25a22d4a458a0p-25,  0x1.8bd6be321c457p-28,
        -0x1.0f08db16a4a3bp-28, -0x1.28e5831db1b7cp-30,
    };
    double t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
    double q = fma(f64_poly2(t, c + 21), t4, f64_poly4(t, t2, c + 17));
    q = fma(q, t8 * t8, f64_poly16(t, t2, t4, t8, c + 1));
    double p = fma(q, t, c[0]);
    *lo = fma(q, t, c[0] - p) + 0x1.badb070000000p-56;
    return p;
}

/* x Phi(x), with Phi(-a) = e^(-a^2/2) P(t) / (a + 1.125), t = (a - 5.5) / (a + 5.5), and its slope, as in
 * f32_gelu_slope(). */
LK_MATH double f64_gelu_slope(double x, double *slope)
{
    double a = fabs(x);
    a = a > 39.0 ? 39.0 : a;
    double p_lo, p = f64_gelu_tail((a - 5.5) / (a + 5.5), &p_lo);
    double square = a * a;
    f64_exp_parts e = f64_exp_split(-0.5 * square, -0.5 * fma(a, a, -square));
    /* a P (1 + m), then the division, both with the rounding error carried along. */
    double v = a * p;
    double rest = fma(a, p_lo, fma(a, p, -v));
    rest = fma(v, e.m, fma(v, e.m_lo, rest));
    double sum = v + rest;
    double d = a + 1.125, inverse = 1.0 / d;
    double tail = f64_divide_by(sum, (v - sum) + rest, d, a - (d - 1.125), inverse);
    tail = f64_scale(tail, e.biased);
    double low = fma(p, inverse, a * -0x1.9884533d43651p-2);
    low = f64_scale(fma(low, e.m, low), e.biased);
    *slope = x >= 0.0 ? 1.0 - low : low;
    return x >= 0.0 ? x - tail : -tail;
}

LK_MATH double f64_gelu(double x)
{
    double slope;
    return f64_gelu_slope(x, &slope);
}

#endif /* LK_SIMD_MATH_F64_H */
