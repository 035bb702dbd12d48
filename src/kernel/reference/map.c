/* Functions of one and two numbers, and activations: those that are one operation by that, the others in
 * higher precision, by libm. */
#include "kernel/reference/real.h"
#include "kernel/reference/reference.h"

#include <float.h>

lk__ref_value lk__ref_near(lk_dtype dtype, long double v, double ulps, double absolute)
{
    const bool f32 = dtype == LK_F32;
    int exponent, lowest = f32 ? FLT_MIN_EXP : DBL_MIN_EXP;
    double hi = (double)v, lo = isfinite(hi) ? (double)(v - (long double)hi) : 0;
    if (f32 && isinf((float)hi))
        hi = (double)(float)hi;
    frexp(hi, &exponent);
    if (exponent < lowest || hi == 0)
        exponent = lowest;
    double ulp = isfinite(hi) ? ldexp(1, exponent - (f32 ? FLT_MANT_DIG : DBL_MANT_DIG)) : 0;
    return (lk__ref_value){hi, lo, ulps * ulp + absolute};
}

bool lk__ref_map1(lk_dtype dtype, lk_map1_op op, double p, double x, double *y)
{
    p = real_round(dtype, p);
    switch (op) {
    case LK_MAP1_COPY: *y = x; return true;
    case LK_MAP1_NEG: *y = -x; return true;
    case LK_MAP1_ABS: *y = fabs(x); return true;
    case LK_MAP1_SQUARE: *y = real_mul(dtype, x, x); return true;
    case LK_MAP1_SQRT: *y = real_sqrt(dtype, x); return true;
    case LK_MAP1_RECIP: *y = real_div(dtype, 1, x); return true;
    case LK_MAP1_RELU: *y = x < 0 ? 0 : x; return true;
    case LK_MAP1_LEAKY_RELU: *y = x < 0 ? real_mul(dtype, p, x) : x; return true;
    case LK_MAP1_SCALE: *y = real_mul(dtype, p, x); return true;
    case LK_MAP1_SHIFT: *y = real_add(dtype, p, x); return true;
    default: return false;
    }
}

bool lk__ref_map2(lk_dtype dtype, lk_map2_op op, double p, double x, double y, double *z)
{
    const bool nan = isnan(x) || isnan(y);
    switch (op) {
    case LK_MAP2_ADD: *z = real_add(dtype, x, y); return true;
    case LK_MAP2_SUB: *z = real_sub(dtype, x, y); return true;
    case LK_MAP2_MUL: *z = real_mul(dtype, x, y); return true;
    case LK_MAP2_DIV: *z = real_div(dtype, x, y); return true;
    case LK_MAP2_MAX: *z = nan ? (double)NAN : y > x ? y : x; return true;
    case LK_MAP2_MIN: *z = nan ? (double)NAN : y < x ? y : x; return true;
    case LK_MAP2_AXPY: *z = real_fma(dtype, real_round(dtype, p), x, y); return true;
    default: return false;
    }
}

static long double gelu_of(long double x)
{
    if (isinf(x) && x < 0)
        return 0;
    return x / 2 * erfcl(-x * 0.707106781186547524400844362104849039L);
}

lk__ref_value lk__ref_map1_value(lk_dtype dtype, lk_map1_op op, double p, double x)
{
    const long double v = (long double)x;
    const double eps = real_epsilon(dtype);
    switch (op) {
    case LK_MAP1_EXP: return lk__ref_near(dtype, expl(v), 2, 0);
    case LK_MAP1_LOG: return lk__ref_near(dtype, logl(v), 2, 0);
    case LK_MAP1_SIN: return lk__ref_near(dtype, sinl(v), 2, 0);
    case LK_MAP1_COS: return lk__ref_near(dtype, cosl(v), 2, 0);
    case LK_MAP1_TANH: return lk__ref_near(dtype, tanhl(v), 2, 0);
    case LK_MAP1_ERF: return lk__ref_near(dtype, erfl(v), 2, 0);
    case LK_MAP1_SIGMOID: return lk__ref_near(dtype, 1 / (1 + expl(-v)), 4, 0);
    case LK_MAP1_SOFTPLUS:
        return lk__ref_near(dtype, v > 0 ? v + log1pl(expl(-v)) : log1pl(expl(v)), 4, 0);
    case LK_MAP1_ELU: {
        const long double by = (long double)real_round(dtype, p);
        return lk__ref_near(dtype, v < 0 ? by * expm1l(v) : v, 2, 4 * eps);
    }
    case LK_MAP1_GELU:
        return lk__ref_near(dtype, gelu_of(v), 2, isfinite(x) ? 4 * eps * fabs(x) : 0);
    default: return (lk__ref_value){.bound = -1};
    }
}

lk__ref_value lk__ref_map2_value(lk_dtype dtype, lk_map2_op op, double x, double y)
{
    if (op != LK_MAP2_POW)
        return (lk__ref_value){.bound = -1};
    return lk__ref_near(dtype, powl((long double)x, (long double)y), 2, 0);
}

double lk__ref_function(lk_dtype dtype, lk_map1_op op, double x)
{
    double in = 0, out = 0; /* room for either type */
    real_set(dtype, &in, 0, x);
    if (lk_map1(dtype, op, 0, 1, &in, &out) != LK_OK)
        return (double)NAN;
    return real_get(dtype, &out, 0);
}

static const struct {
    const char *name;
    lk_map1_op map;
} acts[LK_N_ACTS] = {
    [LK_ACT_NONE] = {"none", LK_MAP1_COPY},          [LK_ACT_RELU] = {"relu", LK_MAP1_RELU},
    [LK_ACT_SIGMOID] = {"sigmoid", LK_MAP1_SIGMOID}, [LK_ACT_TANH] = {"tanh", LK_MAP1_TANH},
    [LK_ACT_GELU] = {"gelu", LK_MAP1_GELU},
};

const char *lk__ref_act_name(lk_act act)
{
    return acts[act].name;
}

double lk__ref_act(lk_dtype dtype, lk_act act, double x)
{
    double y;
    return lk__ref_map1(dtype, acts[act].map, 0, x, &y) ? y
                                                        : lk__ref_function(dtype, acts[act].map, x);
}

lk__ref_value lk__ref_act_value(lk_dtype dtype, lk_act act, lk__ref_value x)
{
    if (act == LK_ACT_NONE)
        return x;
    double v = x.hi + x.lo, y;
    if (!lk__ref_map1(LK_F64, acts[act].map, 0, v, &y))
        y = lk__ref_map1_value(LK_F64, acts[act].map, 0, v).hi;
    /* No activation is steeper than 1.13; its own error is some units of the result. */
    return (lk__ref_value){y, 0, 1.13 * x.bound + 8 * real_epsilon(dtype) * (1 + fabs(v))};
}
