/* Inputs of checks, and arithmetic by definition. */
#include "selfcheck/check.h"

#include <lockstep/extra/alloc.h>

#include <float.h>
#include <math.h>
#include <string.h>

/* The finaliser of SplitMix64: every bit of x decides over every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

uint64_t check_random(const check_case *c, int which, int64_t i)
{
    uint64_t key = c->seed;
    for (const char *p = c->check->name; *p; p++)
        key = mix(key + 0x9e3779b97f4a7c15U + (unsigned char)*p);
    key = mix(key + (uint64_t)c->index * CHECK_MAX_INPUTS * 4 + (uint64_t)which);
    return mix(key + (uint64_t)i * 0x9e3779b97f4a7c15U);
}

double check_get(lk_dtype dtype, const void *base, int64_t i)
{
    switch (dtype) {
    case LK_F32: return (double)((const float *)base)[i];
    case LK_F64: return ((const double *)base)[i];
    case LK_I64: return (double)((const int64_t *)base)[i];
    case LK_I32: return (double)((const int32_t *)base)[i];
    case LK_U8: return (double)((const uint8_t *)base)[i];
    default: return (double)((const uint16_t *)base)[i];
    }
}

void check_set(lk_dtype dtype, void *base, int64_t i, double v)
{
    switch (dtype) {
    case LK_F32: ((float *)base)[i] = (float)v; break;
    case LK_F64: ((double *)base)[i] = v; break;
    case LK_I64: ((int64_t *)base)[i] = (int64_t)v; break;
    case LK_I32: ((int32_t *)base)[i] = (int32_t)v; break;
    case LK_U8: ((uint8_t *)base)[i] = (uint8_t)v; break;
    default: ((uint16_t *)base)[i] = (uint16_t)v; break;
    }
}

static lk_status fill(const check_case *c, check_array *a, int which, double lo, double hi)
{
    LK_TRY(lk_alloc(&a->data, a->n, lk_dtype_size(a->dtype)));
    for (int64_t i = 0; i < a->n; i++) {
        double unit = (double)(check_random(c, which, i) >> 11) * 0x1p-53;
        double v = lo + (hi - lo) * unit;
        check_set(a->dtype, a->data, i, lk_dtype_is_real(a->dtype) ? v : floor(v));
    }
    return LK_OK;
}

lk_status check_input(check_case *c, lk_dtype dtype, int64_t n, double lo, double hi)
{
    LK_CHECK(c->n_in < CHECK_MAX_INPUTS, LK_EINVAL, "%s has too many inputs", c->check->name);
    check_array *a = &c->in[c->n_in++];
    *a = (check_array){dtype, n, NULL};
    LK_TRY(fill(c, a, c->n_in - 1, lo, hi));
    return LK_OK;
}

lk_status check_output(check_case *c, lk_dtype dtype, int64_t n, bool filled)
{
    LK_CHECK(c->n_out < CHECK_MAX_OUTPUTS, LK_EINVAL, "%s has too many outputs", c->check->name);
    check_array *a = &c->out[c->n_out++];
    *a = (check_array){dtype, n, NULL};
    if (filled)
        LK_TRY(fill(c, a, CHECK_MAX_INPUTS + c->n_out - 1, -1, 1));
    return LK_OK;
}

void check_case_free(check_case *c)
{
    for (int i = 0; i < c->n_in; i++)
        lk_free(c->in[i].data);
    for (int i = 0; i < c->n_out; i++)
        lk_free(c->out[i].data);
    c->n_in = c->n_out = 0;
}

double check_epsilon(lk_dtype dtype)
{
    return dtype == LK_F32 ? (double)FLT_EPSILON / 2 : DBL_EPSILON / 2;
}

check_chain check_chain_start(lk_dtype dtype, double start)
{
    return (check_chain){dtype, start, start, 0, fabs(start), 0};
}

/* hi + lo += v: the rounding error of the addition goes to lo (Knuth's TwoSum). */
static void add_exactly(check_chain *c, double v)
{
    double sum = c->hi + v, back = sum - c->hi;
    c->lo += (c->hi - (sum - back)) + (v - back);
    c->hi = sum;
}

void check_chain_fma(check_chain *c, double a, double b)
{
    c->acc = c->dtype == LK_F32 ? (double)fmaf((float)a, (float)b, (float)c->acc)
                                : fma(a, b, c->acc);
    double product = a * b;
    add_exactly(c, product);
    c->lo += fma(a, b, -product);
    c->magnitude += fabs(product);
    c->length++;
}

void check_chain_add(check_chain *c, double b)
{
    c->acc = c->dtype == LK_F32 ? (double)((float)c->acc + (float)b) : c->acc + b;
    add_exactly(c, b);
    c->magnitude += fabs(b);
    c->length++;
}

check_chain check_chain_join(check_chain a, check_chain b)
{
    check_chain_add(&a, b.acc);
    /* Not the rounded sum of b but what it approximates. */
    add_exactly(&a, -b.acc);
    add_exactly(&a, b.hi);
    a.lo += b.lo;
    a.magnitude += b.magnitude - fabs(b.acc);
    a.length += b.length;
    return a;
}

check_chain check_chain_tree(check_chain *v, int64_t n)
{
    if (n == 1)
        return v[0];
    int64_t half = 1;
    while (2 * half < n)
        half *= 2;
    check_chain low = check_chain_tree(v, half);
    return check_chain_join(low, check_chain_tree(v + half, n - half));
}

void check_expect_nothing(const check_case *c, check_truth *truth, int o)
{
    for (int64_t i = 0; i < c->out[o].n && truth->value[o]; i++)
        truth->value[o][i].bound = -1;
    truth->has_bits[o] = true;
    truth->has_value[o] = truth->value[o] != NULL;
}

void check_expect(check_truth *truth, int o, int64_t i, const check_chain *c)
{
    check_set(c->dtype, truth->bits[o], i, c->acc);
    double eps = check_epsilon(c->dtype);
    truth->value[o][i] = (check_value){c->hi, c->lo, (double)(c->length + 2) * eps * c->magnitude};
    truth->has_bits[o] = truth->has_value[o] = true;
}

void check_expect_near(check_truth *truth, int o, int64_t i, lk_dtype dtype, long double v,
                       double ulps, double absolute)
{
    double hi = (double)v, lo = isfinite(hi) ? (double)(v - (long double)hi) : 0;
    if (dtype == LK_F32 && isinf((float)hi))
        hi = (double)(float)hi;
    int exponent, lowest = dtype == LK_F32 ? FLT_MIN_EXP : DBL_MIN_EXP;
    int digits = dtype == LK_F32 ? FLT_MANT_DIG : DBL_MANT_DIG;
    frexp(hi, &exponent);
    if (exponent < lowest || hi == 0)
        exponent = lowest;
    double ulp = isfinite(hi) ? ldexp(1, exponent - digits) : 0;
    truth->value[o][i] = (check_value){hi, lo, ulps * ulp + absolute};
    truth->has_value[o] = true;
}
