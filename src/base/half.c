/* f16 and bf16 by integer arithmetic on the bits of an f32; arrays of f16 by F16C where it is.
 *
 * The arithmetic is in static functions, because a compiler may not inline an exported one.
 */
#include "base/bits.h"
#include "base/fpenv.h"

#include <lockstep/extra/half.h>

#ifdef __x86_64__
#    include <cpuid.h>
#    include <immintrin.h>
#endif

/* The bits of |x| for landmarks of f32. */
enum {
    F32_INFINITY = 0x7f800000,
    F32_F16_OVERFLOW = 0x477ff000,   /* 65520: the least that rounds to f16's infinity */
    F32_F16_MIN_NORMAL = 0x38800000, /* 2^-14 */
    F32_F16_HALF_LEAST = 0x33000000, /* 2^-25: half of f16's least, a tie that goes to 0 */
    F16_INFINITY = 0x7c00,
    F16_QUIET = 0x0200,
    F32_QUIET = 0x00400000,
};

/* The magnitude bits `a` of an f32 between 2^-25 and 2^-14 as a multiple of 2^-24. */
static uint32_t f16_denormal(uint32_t a)
{
    uint32_t shift = 126 - (a >> 23), m = (a & 0x7fffff) | 0x800000;
    uint32_t q = m >> shift, rest = m & ((1U << shift) - 1), half = 1U << (shift - 1);
    return q + (rest > half || (rest == half && (q & 1)));
}

static inline uint16_t f16_encode(float x)
{
    uint32_t u = lk__f32_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    uint32_t h;
    if (a > F32_INFINITY)
        h = F16_INFINITY | F16_QUIET | (a >> 13 & 0x3ff);
    else if (a >= F32_F16_OVERFLOW)
        h = F16_INFINITY;
    else if (a >= F32_F16_MIN_NORMAL)
        h = (a - (112U << 23) + 0xfff + (a >> 13 & 1)) >> 13;
    else
        h = a > F32_F16_HALF_LEAST ? f16_denormal(a) : 0;
    return (uint16_t)(sign | h);
}

static inline float f16_decode(uint16_t h)
{
    uint32_t sign = (h & 0x8000U) << 16, e = h >> 10 & 0x1fU, m = h & 0x3ffU;
    if (e == 0x1f)
        return lk__f32_from_bits(sign | F32_INFINITY | m << 13 | (m ? F32_QUIET : 0U));
    if (e == 0 && m == 0)
        return lk__f32_from_bits(sign);
    if (e == 0) { /* a denormal is a normal f32: bring its leading one to the hidden place */
        uint32_t shift = (uint32_t)__builtin_clz(m) - 21;
        e = 1 - shift;
        m = m << shift & 0x3ff;
    }
    return lk__f32_from_bits(sign | (e + 112) << 23 | m << 13);
}

static inline uint16_t bf16_encode(float x)
{
    uint32_t u = lk__f32_bits(x), rounded = u + 0x7fff + (u >> 16 & 1);
    return (uint16_t)(((u & 0x7fffffff) > F32_INFINITY ? u | F32_QUIET : rounded) >> 16);
}

static inline float bf16_decode(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    return lk__f32_from_bits((u & 0x7fffffff) > F32_INFINITY ? u | F32_QUIET : u);
}

uint16_t lk_f16_encode(float x)
{
    return f16_encode(x);
}

float lk_f16_decode(uint16_t h)
{
    return f16_decode(h);
}

uint16_t lk_bf16_encode(float x)
{
    return bf16_encode(x);
}

float lk_bf16_decode(uint16_t h)
{
    return bf16_decode(h);
}

#ifdef __x86_64__

/* The instructions do what the functions above do, 8 values at a time; returns how many. */
__attribute__((target("avx,f16c"))) static int64_t f16_encode_f16c(int64_t n, const float *x,
                                                                   uint16_t *y)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(y + i), h);
    }
    return i;
}

__attribute__((target("avx,f16c"))) static int64_t f16_decode_f16c(int64_t n, const uint16_t *x,
                                                                   float *y)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(h));
    }
    return i;
}

/* clang's __builtin_cpu_supports() does not know "f16c". */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

#else

static int64_t f16_encode_f16c(int64_t n, const float *x, uint16_t *y)
{
    (void)n, (void)x, (void)y;
    return 0;
}

static int64_t f16_decode_f16c(int64_t n, const uint16_t *x, float *y)
{
    (void)n, (void)x, (void)y;
    return 0;
}

static int has_f16c(void)
{
    return 0;
}

#endif

void lk_f16_encode_array(int64_t n, const float *x, uint16_t *y)
{
    LK_FP_GUARD();
    for (int64_t i = has_f16c() ? f16_encode_f16c(n, x, y) : 0; i < n; i++)
        y[i] = f16_encode(x[i]);
}

void lk_f16_decode_array(int64_t n, const uint16_t *x, float *y)
{
    LK_FP_GUARD();
    for (int64_t i = has_f16c() ? f16_decode_f16c(n, x, y) : 0; i < n; i++)
        y[i] = f16_decode(x[i]);
}

void lk_bf16_encode_array(int64_t n, const float *x, uint16_t *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = bf16_encode(x[i]);
}

void lk_bf16_decode_array(int64_t n, const uint16_t *x, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = bf16_decode(x[i]);
}
