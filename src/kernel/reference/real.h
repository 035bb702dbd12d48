/* Arithmetic of f32 and f64 on doubles: operands are values of the type, and so is what comes out, each
 * operation rounded to the type once. */
#ifndef LK_KERNEL_REFERENCE_REAL_H
#define LK_KERNEL_REFERENCE_REAL_H

#include <lockstep/dtype.h>

#include <math.h>

/* Element i of an array of the type, and back. */
static inline double real_get(lk_dtype t, const void *p, int64_t i)
{
    return t == LK_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static inline void real_set(lk_dtype t, void *p, int64_t i, double v)
{
    if (t == LK_F32)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}

/* The nearest number of the type. */
static inline double real_round(lk_dtype t, double v)
{
    return t == LK_F32 ? (double)(float)v : v;
}

static inline double real_fma(lk_dtype t, double a, double b, double c)
{
    return t == LK_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

static inline double real_add(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a + (float)b) : a + b;
}

static inline double real_sub(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a - (float)b) : a - b;
}

static inline double real_mul(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a * (float)b) : a * b;
}

static inline double real_div(lk_dtype t, double a, double b)
{
    return t == LK_F32 ? (double)((float)a / (float)b) : a / b;
}

static inline double real_sqrt(lk_dtype t, double v)
{
    return t == LK_F32 ? (double)sqrtf((float)v) : sqrt(v);
}

/* Half the distance from 1 to the next number: the unit roundoff. */
static inline double real_epsilon(lk_dtype t)
{
    return t == LK_F32 ? 0x1p-24 : 0x1p-53;
}

#endif /* LK_KERNEL_REFERENCE_REAL_H */
