/* f32x1 and f64x1: vectors of one lane, so that code on vectors is also plain C; include vec.h
 * instead. */
#ifndef LK_SIMD_VEC_SCALAR_H
#define LK_SIMD_VEC_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float f32x1;
typedef double f64x1;
typedef float f32x1_elem;
typedef double f64x1_elem;
typedef bool f32x1_mask;
typedef bool f64x1_mask;
enum { f32x1_lanes = 1, f64x1_lanes = 1 };

LK_INLINE f32x1 f32x1_zero(void)
{
    return 0;
}

LK_INLINE f64x1 f64x1_zero(void)
{
    return 0;
}

LK_INLINE f32x1 f32x1_splat(const float *p)
{
    return *p;
}

LK_INLINE f64x1 f64x1_splat(const double *p)
{
    return *p;
}

LK_INLINE f32x1 f32x1_load(const float *p)
{
    return *p;
}

LK_INLINE f64x1 f64x1_load(const double *p)
{
    return *p;
}

LK_INLINE void f32x1_store(float *p, f32x1 v)
{
    *p = v;
}

LK_INLINE void f64x1_store(double *p, f64x1 v)
{
    *p = v;
}

LK_INLINE f32x1 f32x1_fma(f32x1 a, f32x1 b, f32x1 c)
{
    return fmaf(a, b, c);
}

LK_INLINE f64x1 f64x1_fma(f64x1 a, f64x1 b, f64x1 c)
{
    return fma(a, b, c);
}

LK_INLINE f32x1 f32x1_fresh(void)
{
    return f32x1_zero();
}

LK_INLINE void f32x1_fma_to(f32x1 *acc, f32x1 a, f32x1 b)
{
    *acc = f32x1_fma(a, b, *acc);
}

LK_INLINE f64x1 f64x1_fresh(void)
{
    return f64x1_zero();
}

LK_INLINE void f64x1_fma_to(f64x1 *acc, f64x1 a, f64x1 b)
{
    *acc = f64x1_fma(a, b, *acc);
}

LK_INLINE f32x1 f32x1_add(f32x1 a, f32x1 b)
{
    return a + b;
}

LK_INLINE f64x1 f64x1_add(f64x1 a, f64x1 b)
{
    return a + b;
}

LK_INLINE f32x1 f32x1_mul(f32x1 a, f32x1 b)
{
    return a * b;
}

LK_INLINE f64x1 f64x1_mul(f64x1 a, f64x1 b)
{
    return a * b;
}

LK_INLINE f32x1 f32x1_div(f32x1 a, f32x1 b)
{
    return a / b;
}

LK_INLINE f64x1 f64x1_div(f64x1 a, f64x1 b)
{
    return a / b;
}

LK_INLINE f32x1 f32x1_sqrt(f32x1 a)
{
    return sqrtf(a);
}

LK_INLINE f64x1 f64x1_sqrt(f64x1 a)
{
    return sqrt(a);
}

LK_INLINE f32x1 f32x1_max(f32x1 a, f32x1 b)
{
    return b > a || b != b ? b : a;
}

LK_INLINE f64x1 f64x1_max(f64x1 a, f64x1 b)
{
    return b > a || b != b ? b : a;
}

LK_INLINE f32x1 f32x1_min(f32x1 a, f32x1 b)
{
    return b < a || b != b ? b : a;
}

LK_INLINE f64x1 f64x1_min(f64x1 a, f64x1 b)
{
    return b < a || b != b ? b : a;
}

LK_INLINE f32x1_mask f32x1_mask_first(int n)
{
    return n > 0;
}

LK_INLINE f64x1_mask f64x1_mask_first(int n)
{
    return n > 0;
}

LK_INLINE f32x1_mask f32x1_mask_above(f32x1 a, f32x1 b)
{
    return b > a || (b != b && a == a);
}

LK_INLINE f64x1_mask f64x1_mask_above(f64x1 a, f64x1 b)
{
    return b > a || (b != b && a == a);
}

LK_INLINE f32x1_mask f32x1_mask_equal(const int64_t *p, int64_t k)
{
    return *p == k;
}

LK_INLINE f64x1_mask f64x1_mask_equal(const int64_t *p, int64_t k)
{
    return *p == k;
}

LK_INLINE f32x1 f32x1_load_mask(const float *p, f32x1_mask m)
{
    return m ? *p : 0;
}

LK_INLINE f64x1 f64x1_load_mask(const double *p, f64x1_mask m)
{
    return m ? *p : 0;
}

LK_INLINE f32x1 f32x1_blend(f32x1_mask m, f32x1 a, f32x1 b)
{
    return m ? a : b;
}

LK_INLINE f64x1 f64x1_blend(f64x1_mask m, f64x1 a, f64x1 b)
{
    return m ? a : b;
}

LK_INLINE void f32x1_store_first(float *p, f32x1 v, int n)
{
    if (n > 0)
        *p = v;
}

LK_INLINE void f64x1_store_first(double *p, f64x1 v, int n)
{
    if (n > 0)
        *p = v;
}

#endif /* LK_SIMD_VEC_SCALAR_H */
