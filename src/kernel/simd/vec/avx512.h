/* f32x16 and f64x8 in AVX-512, beside the narrower types; include vec.h instead.
 *
 * With LK_EMULATE_AVX512 the same intrinsics come from SIMDe, which runs each as two of AVX2.
 */
#ifndef LK_SIMD_VEC_AVX512_H
#define LK_SIMD_VEC_AVX512_H

#ifdef LK_EMULATE_AVX512
#    define SIMDE_ENABLE_NATIVE_ALIASES
#    include <simde/x86/avx512.h>
#endif

#include "kernel/simd/vec/avx2.h"

/* A value stays in its register. */
#ifdef LK_EMULATE_AVX512
#    define LK_STAY(v) (void)(v)
#else
#    define LK_STAY(v) __asm__("" : "+v"(v))
#endif

typedef __m512 f32x16;
typedef __m512d f64x8;
typedef float f32x16_elem;
typedef double f64x8_elem;
enum { f32x16_lanes = 16, f64x8_lanes = 8 };

LK_INLINE f32x16 f32x16_zero(void)
{
    return _mm512_setzero_ps();
}

LK_INLINE f64x8 f64x8_zero(void)
{
    return _mm512_setzero_pd();
}

LK_INLINE f32x16 f32x16_splat(const float *p)
{
    return _mm512_set1_ps(*p);
}

LK_INLINE f64x8 f64x8_splat(const double *p)
{
    return _mm512_set1_pd(*p);
}

LK_INLINE f32x16 f32x16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

LK_INLINE f64x8 f64x8_load(const double *p)
{
    return _mm512_loadu_pd(p);
}

LK_INLINE void f32x16_store(float *p, f32x16 v)
{
    _mm512_storeu_ps(p, v);
}

LK_INLINE void f64x8_store(double *p, f64x8 v)
{
    _mm512_storeu_pd(p, v);
}

LK_INLINE f32x16 f32x16_fma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

LK_INLINE f64x8 f64x8_fma(f64x8 a, f64x8 b, f64x8 c)
{
    return _mm512_fmadd_pd(a, b, c);
}

LK_INLINE f32x16 f32x16_fresh(void)
{
    return f32x16_zero();
}

LK_INLINE void f32x16_fma_to(f32x16 *acc, f32x16 a, f32x16 b)
{
    *acc = f32x16_fma(a, b, *acc);
    LK_STAY(*acc);
}

LK_INLINE f64x8 f64x8_fresh(void)
{
    return f64x8_zero();
}

LK_INLINE void f64x8_fma_to(f64x8 *acc, f64x8 a, f64x8 b)
{
    *acc = f64x8_fma(a, b, *acc);
    LK_STAY(*acc);
}

LK_INLINE f32x16 f32x16_add(f32x16 a, f32x16 b)
{
    return _mm512_add_ps(a, b);
}

LK_INLINE f64x8 f64x8_add(f64x8 a, f64x8 b)
{
    return _mm512_add_pd(a, b);
}

LK_INLINE f32x16 f32x16_mul(f32x16 a, f32x16 b)
{
    return _mm512_mul_ps(a, b);
}

LK_INLINE f64x8 f64x8_mul(f64x8 a, f64x8 b)
{
    return _mm512_mul_pd(a, b);
}

LK_INLINE f32x16 f32x16_div(f32x16 a, f32x16 b)
{
    return _mm512_div_ps(a, b);
}

LK_INLINE f64x8 f64x8_div(f64x8 a, f64x8 b)
{
    return _mm512_div_pd(a, b);
}

LK_INLINE f32x16 f32x16_sqrt(f32x16 a)
{
    return _mm512_sqrt_ps(a);
}

LK_INLINE f64x8 f64x8_sqrt(f64x8 a)
{
    return _mm512_sqrt_pd(a);
}

/* The instruction returns its second operand when either is NaN or both are zero. */
LK_INLINE f32x16 f32x16_max(f32x16 a, f32x16 b)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(b, a), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b);
}

LK_INLINE f64x8 f64x8_max(f64x8 a, f64x8 b)
{
    return _mm512_mask_mov_pd(_mm512_max_pd(b, a), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), b);
}

LK_INLINE f32x16 f32x16_min(f32x16 a, f32x16 b)
{
    return _mm512_mask_mov_ps(_mm512_min_ps(b, a), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), b);
}

LK_INLINE f64x8 f64x8_min(f64x8 a, f64x8 b)
{
    return _mm512_mask_mov_pd(_mm512_min_pd(b, a), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), b);
}

#ifndef LK_EMULATE_AVX512

typedef __mmask16 f32x16_mask;
typedef __mmask8 f64x8_mask;

LK_INLINE f32x16_mask f32x16_mask_first(int n)
{
    return (f32x16_mask)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

LK_INLINE f64x8_mask f64x8_mask_first(int n)
{
    return (f64x8_mask)(n >= 8 ? 0xff : n <= 0 ? 0 : (1 << n) - 1);
}

LK_INLINE f32x16_mask f32x16_mask_above(f32x16 a, f32x16 b)
{
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), b, a, _CMP_NLE_UQ);
}

LK_INLINE f64x8_mask f64x8_mask_above(f64x8 a, f64x8 b)
{
    return _mm512_mask_cmp_pd_mask(_mm512_cmp_pd_mask(a, a, _CMP_ORD_Q), b, a, _CMP_NLE_UQ);
}

LK_INLINE f64x8_mask f64x8_mask_equal(const int64_t *p, int64_t k)
{
    return _mm512_cmpeq_epi64_mask(_mm512_loadu_si512(p), _mm512_set1_epi64(k));
}

LK_INLINE f32x16_mask f32x16_mask_equal(const int64_t *p, int64_t k)
{
    return (f32x16_mask)(f64x8_mask_equal(p, k) | f64x8_mask_equal(p + 8, k) << 8);
}

LK_INLINE f32x16 f32x16_load_mask(const float *p, f32x16_mask m)
{
    return _mm512_maskz_loadu_ps(m, p);
}

LK_INLINE f64x8 f64x8_load_mask(const double *p, f64x8_mask m)
{
    return _mm512_maskz_loadu_pd(m, p);
}

/* From memory `a` is read first: a load of the lanes of m would wait until m is known. */
LK_INLINE f32x16 f32x16_blend(f32x16_mask m, f32x16 a, f32x16 b)
{
    __asm__("" : "+v"(a));
    return _mm512_mask_mov_ps(b, m, a);
}

LK_INLINE f64x8 f64x8_blend(f64x8_mask m, f64x8 a, f64x8 b)
{
    __asm__("" : "+v"(a));
    return _mm512_mask_mov_pd(b, m, a);
}

LK_INLINE void f32x16_store_first(float *p, f32x16 v, int n)
{
    _mm512_mask_storeu_ps(p, f32x16_mask_first(n), v);
}

LK_INLINE void f64x8_store_first(double *p, f64x8 v, int n)
{
    _mm512_mask_storeu_pd(p, f64x8_mask_first(n), v);
}

#else /* SIMDe has no masked loads and stores: take halves. */

typedef struct f32x16_mask {
    f32x8_mask half[2];
} f32x16_mask;

typedef struct f64x8_mask {
    f64x4_mask half[2];
} f64x8_mask;

LK_INLINE f32x16_mask f32x16_mask_first(int n)
{
    return (f32x16_mask){{f32x8_mask_first(n), f32x8_mask_first(n - 8)}};
}

LK_INLINE f64x8_mask f64x8_mask_first(int n)
{
    return (f64x8_mask){{f64x4_mask_first(n), f64x4_mask_first(n - 4)}};
}

LK_INLINE f32x16_mask f32x16_mask_above(f32x16 a, f32x16 b)
{
    float pa[16], pb[16];
    f32x16_store(pa, a);
    f32x16_store(pb, b);
    return (f32x16_mask){{f32x8_mask_above(f32x8_load(pa), f32x8_load(pb)),
                          f32x8_mask_above(f32x8_load(pa + 8), f32x8_load(pb + 8))}};
}

LK_INLINE f32x16_mask f32x16_mask_equal(const int64_t *p, int64_t k)
{
    return (f32x16_mask){{f32x8_mask_equal(p, k), f32x8_mask_equal(p + 8, k)}};
}

LK_INLINE f64x8_mask f64x8_mask_above(f64x8 a, f64x8 b)
{
    double pa[8], pb[8];
    f64x8_store(pa, a);
    f64x8_store(pb, b);
    return (f64x8_mask){{f64x4_mask_above(f64x4_load(pa), f64x4_load(pb)),
                         f64x4_mask_above(f64x4_load(pa + 4), f64x4_load(pb + 4))}};
}

LK_INLINE f64x8_mask f64x8_mask_equal(const int64_t *p, int64_t k)
{
    return (f64x8_mask){{f64x4_mask_equal(p, k), f64x4_mask_equal(p + 4, k)}};
}

LK_INLINE f32x16 f32x16_load_mask(const float *p, f32x16_mask m)
{
    float both[16];
    f32x8_store(both, f32x8_load_mask(p, m.half[0]));
    f32x8_store(both + 8, f32x8_load_mask(p + 8, m.half[1]));
    return f32x16_load(both);
}

LK_INLINE f64x8 f64x8_load_mask(const double *p, f64x8_mask m)
{
    double both[8];
    f64x4_store(both, f64x4_load_mask(p, m.half[0]));
    f64x4_store(both + 4, f64x4_load_mask(p + 4, m.half[1]));
    return f64x8_load(both);
}

LK_INLINE f32x16 f32x16_blend(f32x16_mask m, f32x16 a, f32x16 b)
{
    float in[16], out[16];
    f32x16_store(in, a);
    f32x16_store(out, b);
    f32x8_store(out, f32x8_blend(m.half[0], f32x8_load(in), f32x8_load(out)));
    f32x8_store(out + 8, f32x8_blend(m.half[1], f32x8_load(in + 8), f32x8_load(out + 8)));
    return f32x16_load(out);
}

LK_INLINE f64x8 f64x8_blend(f64x8_mask m, f64x8 a, f64x8 b)
{
    double in[8], out[8];
    f64x8_store(in, a);
    f64x8_store(out, b);
    f64x4_store(out, f64x4_blend(m.half[0], f64x4_load(in), f64x4_load(out)));
    f64x4_store(out + 4, f64x4_blend(m.half[1], f64x4_load(in + 4), f64x4_load(out + 4)));
    return f64x8_load(out);
}

LK_INLINE void f32x16_store_first(float *p, f32x16 v, int n)
{
    float both[16];
    f32x16_store(both, v);
    f32x8_store_first(p, f32x8_load(both), n);
    f32x8_store_first(p + 8, f32x8_load(both + 8), n - 8);
}

LK_INLINE void f64x8_store_first(double *p, f64x8 v, int n)
{
    double both[8];
    f64x8_store(both, v);
    f64x4_store_first(p, f64x4_load(both), n);
    f64x4_store_first(p + 4, f64x4_load(both + 4), n - 4);
}

#endif /* LK_EMULATE_AVX512 */

#endif /* LK_SIMD_VEC_AVX512_H */
