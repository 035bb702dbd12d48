/* x^y of doubles.
 *
 * An error of log x is multiplied by up to 745 on its way through y log x to the result, so the
 * logarithm is needed to about 2^-64: it is carried as the sum of two doubles, high and low. */
#ifndef LK_SIMD_MATH_POW_H
#define LK_SIMD_MATH_POW_H

#include "kernel/simd/math/f64.h"

/* Whether a non-negative y is an integer; NaN is none. */
LK_MATH int f64_is_integer(double y)
{
    double r = y < 0x1p52 ? (y + 0x1p52) - 0x1p52 : y;
    return r == y;
}

/* log x = 2 atanh s + e ln 2, s = (m - 1) / (m + 1), for a finite x > 0.
 *
 *     2 atanh s = s (2 + T),  T = z (2/3 + z Q(z)),  z = s^2 */
LK_MATH double f64_log_double(double x, double *lo)
{
    /* (2 atanh(s) / s - 2 - 2/3 z) / z^2 in z, |s| <= (sqrt 2 - 1) / (sqrt 2 + 1): atanh to
     * 2^-73. */
    static const double c[] = {
        0x1.9999999999996p-2, 0x1.2492492492f47p-2, 0x1.c71c71c598011p-3, 0x1.745d1828ae0ffp-3,
        0x1.3b1364f021dfbp-3, 0x1.11206a69f48a9p-3, 0x1.de3e06664297ep-4, 0x1.eac236933710bp-4,
    };
    f64_log_parts p = f64_log_split(x);
    double f = p.m - 1.0, d = p.m + 1.0;
    double inverse = 1.0 / d;
    double s = f * inverse;
    double s_lo = fma(-s, p.m - (d - 1.0), fma(-s, d, f)) * inverse;
    double z = s * s;
    double z_lo = fma(s + s, s_lo, fma(s, s, -z));
    double z2 = z * z;
    /* k = 2/3 + z Q */
    double zq = z * f64_poly8(z, z2, z2 * z2, c);
    double k = 0x1.5555555555555p-1 + zq;
    double k_lo = ((0x1.5555555555555p-1 - k) + zq) + 0x1.5555555555555p-55;
    double t = z * k;
    double t_lo = fma(z, k_lo, fma(z_lo, k, fma(z, k, -t)));
    double a = 2.0 + t;
    double a_lo = ((2.0 - a) + t) + t_lo;
    double l = s * a;
    double l_lo = fma(s, a_lo, fma(s_lo, a, fma(s, a, -l)));
    /* e times the first part of ln 2 is exact. */
    double high = p.e * 0x1.62e42fefa3800p-1;
    double sum = high + l;
    *lo = fma(p.e, 0x1.ef35793c76730p-45, l_lo) + ((high - sum) + l);
    return sum;
}

/* x^y = e^(y log x) for a finite x > 0 and a finite y. */
LK_MATH double f64_pow_usual(double x, double y)
{
    double b = fabs(y), bounded = f64_with_sign(b < 0x1p65 ? b : 0x1p65, y);
    double l_lo, l = f64_log_double(x, &l_lo);
    double w = bounded * l;
    double w_lo = fma(bounded, l_lo, fma(bounded, l, -w));
    w_lo = fabs(w) < 800.0 ? w_lo : 0.0;
    w = w < -800.0 ? -800.0 : w;
    w = w > 800.0 ? 800.0 : w;
    f64_exp_parts e = f64_exp_split(w, w_lo);
    return f64_scale(1.0 + e.m, e.biased);
}

/* |x|^y, then the sign and the many special cases of the C standard. */
LK_MATH double f64_pow(double x, double y)
{
    double a = fabs(x), b = fabs(y);
    double r = f64_pow_usual(a, y);
    double edge = (a == 0.0) == (y > 0.0) ? 0.0 : (double)INFINITY;
    r = a == 0.0 || a == (double)INFINITY ? edge : r;
    int odd = f64_is_integer(b) & !f64_is_integer(0.5 * b);
    r = odd ? f64_with_sign(r, x) : r;
    r = x < 0.0 && a < (double)INFINITY && !f64_is_integer(b) ? (double)NAN : r;
    r = x != x || y != y ? x + y : r;
    return x == 1.0 || y == 0.0 ? 1.0 : r;
}

#endif /* LK_SIMD_MATH_POW_H */
