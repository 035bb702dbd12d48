/* The maps of one argument in double, by libm: a reference for f32, whose ulp is 2^29 of theirs. */
#ifndef LK_TEST_MATH_REFERENCE_H
#define LK_TEST_MATH_REFERENCE_H

#include <lockstep/extra/map.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double reference_sigmoid(double x)
{
    double z = exp(-fabs(x));
    return (x < 0 ? z : 1) / (1 + z);
}

static inline double reference_softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static inline double reference_elu(double x)
{
    return x < 0 ? expm1(x) : x;
}

static inline double reference_gelu(double x)
{
    return x == -HUGE_VAL ? -0.0 : x * (erfc(-x * sqrt(0.5)) / 2);
}

/* The functions that are not exact, with p = 1, and the largest error we allow, in ulp. */
static const struct reference {
    lk_map1_op op;
    double (*fn)(double);
    double limit;
    bool rises; /* monotonically */
} references[] = {
    {LK_MAP1_EXP, exp, 1, true},
    {LK_MAP1_LOG, log, 1, true},
    {LK_MAP1_SIN, sin, 1, false},
    {LK_MAP1_COS, cos, 1, false},
    {LK_MAP1_TANH, tanh, 1.1, true},
    {LK_MAP1_ERF, erf, 1.25, true},
    {LK_MAP1_SIGMOID, reference_sigmoid, 1.5, true},
    {LK_MAP1_SOFTPLUS, reference_softplus, 1.75, true},
    {LK_MAP1_ELU, reference_elu, 1, true},
    {LK_MAP1_GELU, reference_gelu, 1.7, false},
};

enum { N_REFERENCES = sizeof references / sizeof references[0] };

static inline float f32_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Error of y in ulp of the exact value; what is beyond the range counts as 2^128. */
static inline double ulp_error_f32(float y, double exact)
{
    if (isnan(exact) || isnan(y))
        return isnan(exact) && isnan(y) ? 0 : HUGE_VAL;
    if (exact == (double)y)
        return 0;
    if (fabs(exact) > 0x1p128)
        exact = copysign(0x1p128, exact);
    double v = isinf(y) ? copysign(0x1p128, (double)y) : (double)y;
    uint64_t u;
    memcpy(&u, &exact, sizeof u);
    int e = (int)(u >> 52 & 0x7ff) - 1023;
    e = e < -126 ? -126 : e > 127 ? 127 : e;
    u = (uint64_t)(1023 + 23 - e) << 52;
    double per_ulp; /* 2^(23 - e); ldexp() would take most of the time */
    memcpy(&per_ulp, &u, sizeof per_ulp);
    return fabs(v - exact) * per_ulp;
}

#endif /* LK_TEST_MATH_REFERENCE_H */
