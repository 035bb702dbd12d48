/* Transposes in registers, by halves of squares of V_lanes: V_half_square(v, src, lds) sets element j
 * of v[i] = src[j][i] for i < V_lanes / 2 and j < V_lanes, where one row is lds elements from the
 * next. */
#ifndef LK_SIMD_VEC_TRANSPOSE_H
#define LK_SIMD_VEC_TRANSPOSE_H

#include "kernel/simd/vec.h"

/* Four columns of rows j ... j + 3 in the low halves, of j + 4 ... j + 7 in the high halves, so
 * that what is left to do is a 4 x 4 transpose within each half. */
LK_INLINE void f32x8_half_square(f32x8 v[4], const float *src, int64_t lds)
{
    const float *low_rows = src, *high_rows = src + 4 * lds;
    LK_OPAQUE(low_rows); /* or their addresses would fill the registers */
    LK_OPAQUE(high_rows);
    LK_UNROLL
    for (int j = 0; j < 4; j++) {
        const f32x8 low = _mm256_castps128_ps256(_mm_loadu_ps(low_rows + j * lds));
        v[j] = _mm256_insertf128_ps(low, _mm_loadu_ps(high_rows + j * lds), 1);
    }
    const f32x8 a = _mm256_unpacklo_ps(v[0], v[1]), b = _mm256_unpackhi_ps(v[0], v[1]);
    const f32x8 c = _mm256_unpacklo_ps(v[2], v[3]), d = _mm256_unpackhi_ps(v[2], v[3]);
    v[0] = _mm256_shuffle_ps(a, c, 0x44);
    v[1] = _mm256_shuffle_ps(a, c, 0xee);
    v[2] = _mm256_shuffle_ps(b, d, 0x44);
    v[3] = _mm256_shuffle_ps(b, d, 0xee);
}

LK_INLINE void f64x4_half_square(f64x4 v[2], const double *src, int64_t lds)
{
    LK_UNROLL
    for (int j = 0; j < 2; j++) {
        const f64x4 low = _mm256_castpd128_pd256(_mm_loadu_pd(src + j * lds));
        v[j] = _mm256_insertf128_pd(low, _mm_loadu_pd(src + (j + 2) * lds), 1);
    }
    const f64x4 a = v[0];
    v[0] = _mm256_unpacklo_pd(a, v[1]);
    v[1] = _mm256_unpackhi_pd(a, v[1]);
}

#endif /* LK_SIMD_VEC_TRANSPOSE_H */
