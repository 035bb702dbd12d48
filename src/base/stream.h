/* Stores past the caches, for lines that another core has read: an ordinary store would first have to
 * take them away from it, which costs several times as much. */
#ifndef LK_BASE_STREAM_H
#define LK_BASE_STREAM_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#    include <emmintrin.h>
#endif

/** Copy `bytes`, a multiple of 64, to `to`, aligned to 64.  Others may look after lk__stream_end(). */
static inline void lk__stream(void *to, const void *from, int64_t bytes)
{
#if defined(__SSE2__)
    __m128i *t = to;
    const __m128i *f = from;
    for (int64_t i = 0; i < bytes / 16; i += 4) {
        __m128i a = _mm_loadu_si128(f + i), b = _mm_loadu_si128(f + i + 1);
        __m128i c = _mm_loadu_si128(f + i + 2), d = _mm_loadu_si128(f + i + 3);
        _mm_stream_si128(t + i, a);
        _mm_stream_si128(t + i + 1, b);
        _mm_stream_si128(t + i + 2, c);
        _mm_stream_si128(t + i + 3, d);
    }
#else
    memcpy(to, from, (size_t)bytes);
#endif
}

/** What this thread has streamed is in order before what it stores later. */
static inline void lk__stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif /* LK_BASE_STREAM_H */
