/* lk_rng: uniform draws from the blocks of Philox, by a key and a position in its stream.  No
 * state: the same arguments give the same numbers on any thread and rank. */
#include "base/fpenv.h"
#include "base/integer.h"
#include "base/random/philox.h"

#include <lockstep/extra/philox.h>
#include <lockstep/hash.h>
#include <lockstep/rng.h>

enum { BITS_STEP = 32, BITS_SAMPLE = 48, BITS_ELEMENT = 48, CHUNK = 256 };

lk_rng lk_rng_start(int64_t seed, const char *name, const char *purpose)
{
    lk_hash h = lk_hash_start();
    lk_hash_add_i64(&h, seed);
    lk_hash_add_text(&h, name);
    lk_hash_add_text(&h, purpose);
    uint64_t v = lk_hash_value(&h);
    return (lk_rng){{(uint32_t)v, (uint32_t)(v >> 32)}};
}

void lk_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    lk__philox4x32(counter, key, out);
}

/* The counter of block `block` of the sample and step of `at`. */
static void counter_make(lk_rng_at at, int64_t block, uint32_t counter[4])
{
    uint64_t b = (uint64_t)block, s = (uint64_t)at.sample;
    counter[0] = (uint32_t)b;
    counter[1] = (uint32_t)(b >> 32 | s << 16);
    counter[2] = (uint32_t)(s >> 16);
    counter[3] = (uint32_t)at.step;
}

static void block_make(lk_rng rng, lk_rng_at at, int64_t block, uint32_t out[4])
{
    uint32_t counter[4];
    counter_make(at, block, counter);
    lk__philox4x32(counter, rng.key, out);
}

/* Many blocks from `block` on, one after the other. */
static void blocks_make(lk_rng rng, lk_rng_at at, int64_t block, uint32_t *out)
{
    uint32_t c[4][LK__PHILOX_LANES], counter[4];
    for (int i = 0; i < LK__PHILOX_LANES; i++) {
        counter_make(at, block + i, counter);
        for (int k = 0; k < 4; k++)
            c[k][i] = counter[k];
    }
    lk__philox_lanes(c, rng.key);
    for (int i = 0; i < LK__PHILOX_LANES; i++)
        for (int k = 0; k < 4; k++)
            out[4 * i + k] = c[k][i];
}

/* out[i] = word `first` + i of the sample and step of `at`, four to a block. */
static void words_make(lk_rng rng, lk_rng_at at, int64_t first, int64_t n, uint32_t *out)
{
    const int64_t many = INT64_C(4) * LK__PHILOX_LANES;
    int64_t w = first, end = first + n;
    while (w < end) {
        if (w % 4 == 0 && end - w >= many) {
            blocks_make(rng, at, w / 4, out);
            w += many;
            out += many;
            continue;
        }
        uint32_t word[4];
        block_make(rng, at, w / 4, word);
        for (int64_t k = w % 4; k < 4 && w < end; k++, w++)
            *out++ = word[k];
    }
}

static int in_bits(int64_t v, int bits)
{
    return v >= 0 && v >> bits == 0;
}

static lk_status place_check(lk_rng_at at, int64_t n, const void *out)
{
    LK_CHECK(in_bits(at.step, BITS_STEP), LK_EINVAL, "step %lld is not in [0, 2^%d)",
             (long long)at.step, BITS_STEP);
    LK_CHECK(in_bits(at.sample, BITS_SAMPLE), LK_EINVAL, "sample %lld is not in [0, 2^%d)",
             (long long)at.sample, BITS_SAMPLE);
    LK_CHECK(in_bits(at.element, BITS_ELEMENT), LK_EINVAL, "element %lld is not in [0, 2^%d)",
             (long long)at.element, BITS_ELEMENT);
    LK_CHECK(n >= 0 && n <= (INT64_C(1) << BITS_ELEMENT) - at.element, LK_EINVAL,
             "%lld elements from element %lld on do not end within 2^%d", (long long)n,
             (long long)at.element, BITS_ELEMENT);
    LK_CHECK(out || n == 0, LK_EINVAL, "out is NULL for %lld elements", (long long)n);
    return LK_OK;
}

lk_status lk_rng_bits(lk_rng rng, lk_rng_at at, int64_t n, uint32_t *out)
{
    LK_TRY(place_check(at, n, out));
    words_make(rng, at, at.element, n, out);
    return LK_OK;
}

lk_status lk_rng_uniform_f32(lk_rng rng, lk_rng_at at, int64_t n, float *out)
{
    LK_FP_GUARD();
    LK_TRY(place_check(at, n, out));
    uint32_t word[CHUNK];
    for (int64_t done = 0, m; done < n; done += m) {
        m = lk__min(n - done, CHUNK);
        words_make(rng, at, at.element + done, m, word);
        for (int64_t i = 0; i < m; i++)
            out[done + i] = (float)(int32_t)(word[i] >> 8) * 0x1p-24F;
    }
    return LK_OK;
}

/* The 64 bits of words 2i and 2i + 1. */
static uint64_t pair_of(const uint32_t *word, int64_t i)
{
    return word[2 * i] | (uint64_t)word[2 * i + 1] << 32;
}

lk_status lk_rng_uniform_f64(lk_rng rng, lk_rng_at at, int64_t n, double *out)
{
    LK_FP_GUARD();
    LK_TRY(place_check(at, n, out));
    uint32_t word[CHUNK] = {0};
    for (int64_t done = 0, m; done < n; done += m) {
        m = lk__min(n - done, CHUNK / 2);
        words_make(rng, at, 2 * (at.element + done), 2 * m, word);
        for (int64_t i = 0; i < m; i++)
            out[done + i] = (double)(int64_t)(pair_of(word, i) >> 11) * 0x1p-53;
    }
    return LK_OK;
}

/* The upper and lower 64 bits of a * b. */
static uint64_t multiply(uint64_t a, uint64_t b, uint64_t *low)
{
    uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffff);
    *low = a * b;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

static int64_t draw_below(lk_rng rng, lk_rng_at at, uint64_t bound)
{
    uint64_t reject = -bound % bound; /* 2^64 mod bound */
    uint32_t word[4];
    block_make(rng, at, at.element, word);
    for (;;) {
        for (int half = 0; half < 2; half++) {
            uint64_t low, high = multiply(pair_of(word, half), bound, &low);
            if (low >= reject)
                return (int64_t)high;
        }
        const uint32_t counter[4] = {word[0], word[1], word[2], word[3]};
        lk__philox4x32(counter, rng.key, word);
    }
}

lk_status lk_rng_below(lk_rng rng, lk_rng_at at, int64_t bound, int64_t n, int64_t *out)
{
    LK_TRY(place_check(at, n, out));
    LK_CHECK(bound >= 1, LK_EINVAL, "no integer is in [0, %lld)", (long long)bound);
    for (int64_t i = 0; i < n; i++, at.element++)
        out[i] = draw_below(rng, at, (uint64_t)bound);
    return LK_OK;
}
