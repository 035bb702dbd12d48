/* f32x8 and f64x4 in AVX2 and FMA; include vec.h instead. */
#ifndef LK_SIMD_VEC_AVX2_H
#define LK_SIMD_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

typedef __m256 f32x8;
typedef __m256d f64x4;
typedef float f32x8_elem;
typedef double f64x4_elem;
typedef __m256i f32x8_mask;
typedef __m256i f64x4_mask;
enum { f32x8_lanes = 8, f64x4_lanes = 4 };

LK_INLINE f32x8 f32x8_zero(void)
{
    return _mm256_setzero_ps();
}

LK_INLINE f64x4 f64x4_zero(void)
{
    return _mm256_setzero_pd();
}

LK_INLINE f32x8 f32x8_splat(const float *p)
{
    return _mm256_broadcast_ss(p);
}

LK_INLINE f64x4 f64x4_splat(const double *p)
{
    return _mm256_broadcast_sd(p);
}

LK_INLINE f32x8 f32x8_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

LK_INLINE f64x4 f64x4_load(const double *p)
{
    return _mm256_loadu_pd(p);
}

LK_INLINE void f32x8_store(float *p, f32x8 v)
{
    _mm256_storeu_ps(p, v);
}

LK_INLINE void f64x4_store(double *p, f64x4 v)
{
    _mm256_storeu_pd(p, v);
}

LK_INLINE f32x8 f32x8_fma(f32x8 a, f32x8 b, f32x8 c)
{
    return _mm256_fmadd_ps(a, b, c);
}

LK_INLINE f64x4 f64x4_fma(f64x4 a, f64x4 b, f64x4 c)
{
    return _mm256_fmadd_pd(a, b, c);
}

/* These two are written out: with nearly all registers taken by sums, the compiler would move them
 * around, and spill some. */
LK_INLINE f32x8 f32x8_fresh(void)
{
    f32x8 v;
    __asm__ volatile("vxorps %x0, %x0, %x0" : "=x"(v));
    return v;
}

LK_INLINE f64x4 f64x4_fresh(void)
{
    f64x4 v;
    __asm__ volatile("vxorpd %x0, %x0, %x0" : "=x"(v));
    return v;
}

#if defined LK_SIMD_avx512 && !defined LK_EMULATE_AVX512

LK_INLINE void f32x8_fma_to(f32x8 *acc, f32x8 a, f32x8 b)
{
    *acc = f32x8_fma(a, b, *acc);
    __asm__("" : "+v"(*acc));
}

LK_INLINE void f64x4_fma_to(f64x4 *acc, f64x4 a, f64x4 b)
{
    *acc = f64x4_fma(a, b, *acc);
    __asm__("" : "+v"(*acc));
}

#else

LK_INLINE void f32x8_fma_to(f32x8 *acc, f32x8 a, f32x8 b)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
}

LK_INLINE void f64x4_fma_to(f64x4 *acc, f64x4 a, f64x4 b)
{
    __asm__("vfmadd231pd %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
}

#endif

LK_INLINE f32x8 f32x8_add(f32x8 a, f32x8 b)
{
    return _mm256_add_ps(a, b);
}

LK_INLINE f64x4 f64x4_add(f64x4 a, f64x4 b)
{
    return _mm256_add_pd(a, b);
}

LK_INLINE f32x8 f32x8_mul(f32x8 a, f32x8 b)
{
    return _mm256_mul_ps(a, b);
}

LK_INLINE f64x4 f64x4_mul(f64x4 a, f64x4 b)
{
    return _mm256_mul_pd(a, b);
}

LK_INLINE f32x8 f32x8_div(f32x8 a, f32x8 b)
{
    return _mm256_div_ps(a, b);
}

LK_INLINE f64x4 f64x4_div(f64x4 a, f64x4 b)
{
    return _mm256_div_pd(a, b);
}

LK_INLINE f32x8 f32x8_sqrt(f32x8 a)
{
    return _mm256_sqrt_ps(a);
}

LK_INLINE f64x4 f64x4_sqrt(f64x4 a)
{
    return _mm256_sqrt_pd(a);
}

/* The instruction returns its second operand when either is NaN or both are zero. */
LK_INLINE f32x8 f32x8_max(f32x8 a, f32x8 b)
{
    return _mm256_blendv_ps(_mm256_max_ps(b, a), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}

LK_INLINE f64x4 f64x4_max(f64x4 a, f64x4 b)
{
    return _mm256_blendv_pd(_mm256_max_pd(b, a), b, _mm256_cmp_pd(b, b, _CMP_UNORD_Q));
}

LK_INLINE f32x8 f32x8_min(f32x8 a, f32x8 b)
{
    return _mm256_blendv_ps(_mm256_min_ps(b, a), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}

LK_INLINE f64x4 f64x4_min(f64x4 a, f64x4 b)
{
    return _mm256_blendv_pd(_mm256_min_pd(b, a), b, _mm256_cmp_pd(b, b, _CMP_UNORD_Q));
}

LK_INLINE f32x8_mask f32x8_mask_first(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

LK_INLINE f64x4_mask f64x4_mask_first(int n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

LK_INLINE f32x8_mask f32x8_mask_above(f32x8 a, f32x8 b)
{
    return _mm256_castps_si256(
        _mm256_and_ps(_mm256_cmp_ps(b, a, _CMP_NLE_UQ), _mm256_cmp_ps(a, a, _CMP_ORD_Q)));
}

LK_INLINE f64x4_mask f64x4_mask_above(f64x4 a, f64x4 b)
{
    return _mm256_castpd_si256(
        _mm256_and_pd(_mm256_cmp_pd(b, a, _CMP_NLE_UQ), _mm256_cmp_pd(a, a, _CMP_ORD_Q)));
}

LK_INLINE f64x4_mask f64x4_mask_equal(const int64_t *p, int64_t k)
{
    return _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi64x(k));
}

/* The low halves of eight 64-bit masks: the even elements of each, then the pairs in order. */
LK_INLINE f32x8_mask f32x8_mask_equal(const int64_t *p, int64_t k)
{
    __m256 lo = _mm256_castsi256_ps(f64x4_mask_equal(p, k));
    __m256 hi = _mm256_castsi256_ps(f64x4_mask_equal(p + 4, k));
    __m256i mixed = _mm256_castps_si256(_mm256_shuffle_ps(lo, hi, _MM_SHUFFLE(2, 0, 2, 0)));
    return _mm256_permute4x64_epi64(mixed, _MM_SHUFFLE(3, 1, 2, 0));
}

LK_INLINE f32x8 f32x8_load_mask(const float *p, f32x8_mask m)
{
    return _mm256_maskload_ps(p, m);
}

LK_INLINE f64x4 f64x4_load_mask(const double *p, f64x4_mask m)
{
    return _mm256_maskload_pd(p, m);
}

LK_INLINE f32x8 f32x8_blend(f32x8_mask m, f32x8 a, f32x8 b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
}

LK_INLINE f64x4 f64x4_blend(f64x4_mask m, f64x4 a, f64x4 b)
{
    return _mm256_blendv_pd(b, a, _mm256_castsi256_pd(m));
}

/* Masked stores of AVX2 take tens of cycles on some processors; halves do not, and n rarely changes
 * from one call to the next, so that the branches cost nothing. */
LK_INLINE void f32x8_store_first(float *p, f32x8 v, int n)
{
    if (n >= 8) {
        _mm256_storeu_ps(p, v);
        return;
    }
    if (n <= 0)
        return;
    __m128 rest = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)p, rest);
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, rest);
}

LK_INLINE void f64x4_store_first(double *p, f64x4 v, int n)
{
    if (n >= 4) {
        _mm256_storeu_pd(p, v);
        return;
    }
    if (n <= 0)
        return;
    __m128d rest = _mm256_castpd256_pd128(v);
    if (n & 2) {
        _mm_storeu_pd(p, rest);
        rest = _mm256_extractf128_pd(v, 1);
        p += 2;
    }
    if (n & 1)
        _mm_store_sd(p, rest);
}

#endif /* LK_SIMD_VEC_AVX2_H */
