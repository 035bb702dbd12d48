/* Sums over elements of a mix of place and bits: what a tensor is hashed by.
 *
 *     sum = sum over elements, modulo 2^64, of mix((place + 1) * STEP + bits)
 *
 * The mix is that of SplitMix64.  It is a bijection of 64 bits, and STEP is odd: of one place any other
 * bits, and of one value any other place, give another number.  The scalar code is the definition.
 */
#include "base/places.h"

#include <string.h>

#if defined __x86_64__
#    include <immintrin.h>
#endif

#define STEP UINT64_C(0x9e3779b97f4a7c15)
#define FIRST UINT64_C(0xbf58476d1ce4e5b9)
#define SECOND UINT64_C(0x94d049bb133111eb)

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * FIRST;
    z = (z ^ z >> 27) * SECOND;
    return z ^ z >> 31;
}

static uint64_t bits_of(const unsigned char *p, size_t bytes)
{
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (bytes) {
    case 1: memcpy(&u8, p, sizeof u8); return u8;
    case 2: memcpy(&u16, p, sizeof u16); return u16;
    case 4: memcpy(&u32, p, sizeof u32); return u32;
    default: memcpy(&u64, p, sizeof u64); return u64;
    }
}

/* n elements from key (place + 1) * STEP on; inlined for each number of bytes. */
static inline __attribute__((always_inline)) uint64_t sum_of(size_t bytes, int64_t n,
                                                             const unsigned char *p, uint64_t key)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++, p += bytes, key += STEP)
        sum += mix(key + bits_of(p, bytes));
    return sum;
}

static uint64_t key_of(int64_t place)
{
    return ((uint64_t)place + 1) * STEP;
}

static uint64_t sum_scalar(lk_dtype dtype, int64_t n, const void *data, uint64_t key)
{
    switch (lk_dtype_size(dtype)) {
    case 1: return sum_of(1, n, data, key);
    case 2: return sum_of(2, n, data, key);
    case 4: return sum_of(4, n, data, key);
    case 8: return sum_of(8, n, data, key);
    default: return 0;
    }
}

uint64_t lk__places_sum(lk_dtype dtype, int64_t n, const void *data, int64_t place)
{
    return sum_scalar(dtype, n, data, key_of(place));
}

#if defined __x86_64__

#    define VECTORS static inline __attribute__((always_inline, target("avx2")))

/* z * c modulo 2^64; high is c shifted right by 32. */
VECTORS __m256i times(__m256i z, __m256i c, __m256i high)
{
    __m256i low = _mm256_mul_epu32(z, c);
    __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(z, high),
                                     _mm256_mul_epu32(_mm256_srli_epi64(z, 32), c));
    return _mm256_add_epi64(low, _mm256_slli_epi64(cross, 32));
}

VECTORS __m256i mix4(__m256i z)
{
    const __m256i first = _mm256_set1_epi64x((int64_t)FIRST),
                  second = _mm256_set1_epi64x((int64_t)SECOND);
    z = _mm256_xor_si256(z, _mm256_srli_epi64(z, 30));
    z = times(z, first, _mm256_set1_epi64x((int64_t)(FIRST >> 32)));
    z = _mm256_xor_si256(z, _mm256_srli_epi64(z, 27));
    z = times(z, second, _mm256_set1_epi64x((int64_t)(SECOND >> 32)));
    return _mm256_xor_si256(z, _mm256_srli_epi64(z, 31));
}

/* The bits of four elements. */
VECTORS __m256i load4(const unsigned char *p, size_t bytes)
{
    int32_t four;
    switch (bytes) {
    case 1: memcpy(&four, p, sizeof four); return _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
    case 2: return _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p));
    case 4: return _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(const void *)p));
    default: return _mm256_loadu_si256((const __m256i *)(const void *)p);
    }
}

/* As sum_of(), for n a multiple of 8. */
VECTORS uint64_t sum_vectors_of(size_t bytes, int64_t n, const unsigned char *p, uint64_t from)
{
    const __m256i ahead = _mm256_set1_epi64x((int64_t)(8 * STEP));
    __m256i key = _mm256_set_epi64x((int64_t)(from + 3 * STEP), (int64_t)(from + 2 * STEP),
                                    (int64_t)(from + STEP), (int64_t)from);
    __m256i next = _mm256_add_epi64(key, _mm256_set1_epi64x((int64_t)(4 * STEP)));
    __m256i sum = _mm256_setzero_si256(), other = sum;
    uint64_t part[4];
    for (int64_t i = 0; i < n; i += 8, p += 8 * bytes) {
        sum = _mm256_add_epi64(sum, mix4(_mm256_add_epi64(key, load4(p, bytes))));
        other = _mm256_add_epi64(other, mix4(_mm256_add_epi64(next, load4(p + 4 * bytes, bytes))));
        key = _mm256_add_epi64(key, ahead);
        next = _mm256_add_epi64(next, ahead);
    }
    _mm256_storeu_si256((__m256i *)(void *)part, _mm256_add_epi64(sum, other));
    return part[0] + part[1] + part[2] + part[3];
}

__attribute__((target("avx2"))) static uint64_t sum_vectors(lk_dtype dtype, int64_t n,
                                                            const void *data, uint64_t key)
{
    switch (lk_dtype_size(dtype)) {
    case 1: return sum_vectors_of(1, n, data, key);
    case 2: return sum_vectors_of(2, n, data, key);
    case 4: return sum_vectors_of(4, n, data, key);
    case 8: return sum_vectors_of(8, n, data, key);
    default: return 0;
    }
}

bool lk__places_has_vectors(void)
{
    return __builtin_cpu_supports("avx2");
}

#else

static uint64_t sum_vectors(lk_dtype dtype, int64_t n, const void *data, uint64_t key)
{
    return sum_scalar(dtype, n, data, key);
}

bool lk__places_has_vectors(void)
{
    return false;
}

#endif

uint64_t lk__places_sum_vectors(lk_dtype dtype, int64_t n, const void *data, int64_t place)
{
    int64_t most = n / 8 * 8;
    uint64_t sum = sum_vectors(dtype, most, data, key_of(place));
    const char *rest = (const char *)data + most * (int64_t)lk_dtype_size(dtype);
    return sum + sum_scalar(dtype, n - most, rest, key_of(place + most));
}

uint64_t lk_hash_sum(lk_dtype dtype, int64_t n, const void *data, int64_t place)
{
    if (n <= 0)
        return 0;
    return n >= 8 && lk__places_has_vectors() ? lk__places_sum_vectors(dtype, n, data, place)
                                              : lk__places_sum(dtype, n, data, place);
}

uint64_t lk_hash_sum_box(lk_dtype dtype, const int64_t *dim, const lk_box *box, const void *data)
{
    uint64_t sum = 0;
    int64_t bytes = (int64_t)lk_dtype_size(dtype);
    lk_box_walk walk = lk_box_start(box, dim);
    while (lk_box_next(&walk))
        sum += lk_hash_sum(dtype, walk.n, (const char *)data + walk.at * bytes, walk.place);
    return sum;
}
