/* Moves of bytes, whatever they mean: a line past the cache, and transposes of squares of small
 * elements.
 *
 *     LK_LINE                       bytes of a line of the cache
 *     line_past(to, from)           a line that begins at a whole one in `to`, around the cache
 *     past_end()                    what went around the cache comes before what is stored after
 *     u8_square(to, ldt, s, lds)    byte i of row j of s is byte j of row i of `to`, for i, j < 8
 *     u16_square(to, ldt, s, lds)   the same with elements of two bytes; ldt and lds count bytes
 */
#ifndef LK_SIMD_VEC_BYTES_H
#define LK_SIMD_VEC_BYTES_H

#include "kernel/simd/vec.h"

#include <string.h>

enum { LK_LINE = 64 };

#ifdef LK_SIMD_scalar

LK_INLINE void line_past(char *to, const char *from)
{
    memcpy(to, from, LK_LINE);
}

LK_INLINE void past_end(void)
{
}

#else

LK_INLINE void line_past(char *to, const char *from)
{
    const __m256i a = _mm256_loadu_si256((const __m256i *)from);
    const __m256i b = _mm256_loadu_si256((const __m256i *)from + 1);
    _mm256_stream_si256((__m256i *)to, a);
    _mm256_stream_si256((__m256i *)to + 1, b);
}

LK_INLINE void past_end(void)
{
    _mm_sfence();
}

LK_INLINE void u8_square(char *to, int64_t ldt, const char *s, int64_t lds)
{
    __m128i v[8], w[4];
    LK_UNROLL
    for (int j = 0; j < 8; j++)
        v[j] = _mm_loadl_epi64((const __m128i *)(s + j * lds));
    LK_UNROLL
    for (int j = 0; j < 4; j++) /* columns of rows 2 j and 2 j + 1 */
        w[j] = _mm_unpacklo_epi8(v[2 * j], v[2 * j + 1]);
    LK_UNROLL
    for (int j = 0; j < 4; j += 2) { /* of four rows: columns 0 ... 3, then 4 ... 7 */
        v[j] = _mm_unpacklo_epi16(w[j], w[j + 1]);
        v[j + 1] = _mm_unpackhi_epi16(w[j], w[j + 1]);
    }
    w[0] = _mm_unpacklo_epi32(v[0], v[2]);
    w[1] = _mm_unpackhi_epi32(v[0], v[2]);
    w[2] = _mm_unpacklo_epi32(v[1], v[3]);
    w[3] = _mm_unpackhi_epi32(v[1], v[3]);
    LK_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm_storel_epi64((__m128i *)(to + 2 * i * ldt), w[i]);
        _mm_storel_epi64((__m128i *)(to + (2 * i + 1) * ldt), _mm_unpackhi_epi64(w[i], w[i]));
    }
}

LK_INLINE void u16_square(char *to, int64_t ldt, const char *s, int64_t lds)
{
    __m128i v[8], w[8];
    LK_UNROLL
    for (int j = 0; j < 8; j++)
        v[j] = _mm_loadu_si128((const __m128i *)(s + j * lds));
    LK_UNROLL
    for (int j = 0; j < 8; j += 2) { /* of two rows: columns 0 ... 3, then 4 ... 7 */
        w[j] = _mm_unpacklo_epi16(v[j], v[j + 1]);
        w[j + 1] = _mm_unpackhi_epi16(v[j], v[j + 1]);
    }
    LK_UNROLL
    for (int j = 0; j < 8; j += 4) { /* of four rows: two columns each */
        LK_UNROLL
        for (int h = 0; h < 2; h++) {
            v[j + 2 * h] = _mm_unpacklo_epi32(w[j + h], w[j + h + 2]);
            v[j + 2 * h + 1] = _mm_unpackhi_epi32(w[j + h], w[j + h + 2]);
        }
    }
    LK_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(to + 2 * i * ldt), _mm_unpacklo_epi64(v[i], v[i + 4]));
        _mm_storeu_si128((__m128i *)(to + (2 * i + 1) * ldt), _mm_unpackhi_epi64(v[i], v[i + 4]));
    }
}

#endif

#endif /* LK_SIMD_VEC_BYTES_H */
