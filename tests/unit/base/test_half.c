/* f16 and bf16: every value, every tie, every special case; one value against arrays of them. */
#include "harness.h"

#include <lockstep/extra/half.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* What a format is made of, and its functions. */
struct format {
    int exponent_bits, fraction_bits;
    uint16_t (*encode)(float);
    float (*decode)(uint16_t);
    void (*encode_array)(int64_t, const float *, uint16_t *);
    void (*decode_array)(int64_t, const uint16_t *, float *);
};

static const struct format formats[] = {
    {5, 10, lk_f16_encode, lk_f16_decode, lk_f16_encode_array, lk_f16_decode_array},
    {8, 7, lk_bf16_encode, lk_bf16_decode, lk_bf16_encode_array, lk_bf16_decode_array},
};
enum { N_FORMATS = 2, N_VALUES = 1 << 16 };

static uint32_t infinity_of(const struct format *f)
{
    return ((1U << f->exponent_bits) - 1) << f->fraction_bits;
}

/* The value of a finite pattern by its definition, exact in double. */
static double meaning(const struct format *f, uint32_t magnitude)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    int e = (int)(magnitude >> f->fraction_bits);
    int m = (int)(magnitude & ((1U << f->fraction_bits) - 1));
    if (e > 0)
        m += 1 << f->fraction_bits;
    return ldexp(m, (e > 0 ? e : 1) - bias - f->fraction_bits);
}

TEST(every_finite_value_decodes_to_its_meaning_and_back)
{
    for (int k = 0; k < N_FORMATS; k++) {
        const struct format *f = &formats[k];
        for (uint32_t a = 0; a < infinity_of(f); a++) {
            float x = f->decode((uint16_t)a), minus = f->decode((uint16_t)(a | 0x8000));
            ASSERT_TRUE((double)x == meaning(f, a));
            ASSERT_EQ(bits_of(minus), bits_of(x) | 0x80000000);
            ASSERT_EQ(f->encode(x), a);
            ASSERT_EQ(f->encode(minus), a | 0x8000);
        }
    }
}

TEST(infinities_stay_and_nans_become_quiet)
{
    for (int k = 0; k < N_FORMATS; k++) {
        const struct format *f = &formats[k];
        uint32_t inf = infinity_of(f), quiet = 1U << (f->fraction_bits - 1);
        ASSERT_EQ(bits_of(f->decode((uint16_t)inf)), 0x7f800000);
        ASSERT_EQ(f->encode(float_of(0xff800000)), inf | 0x8000);
        for (uint32_t a = inf + 1; a < 0x8000; a++) {
            uint32_t payload = (a & ((1U << f->fraction_bits) - 1)) << (23 - f->fraction_bits);
            ASSERT_EQ(bits_of(f->decode((uint16_t)a)), 0x7fc00000 | payload);
            ASSERT_EQ(f->encode(float_of(0xff800000 | payload)), 0x8000 | a | quiet);
        }
        /* A payload in the lower bits alone must not turn a NaN into an infinity. */
        ASSERT_EQ(f->encode(float_of(0x7f800001)), inf | quiet);
    }
}

/* Between each two neighbours a < a + 1: just below the middle, the middle, just above. */
TEST(values_between_neighbours_round_to_the_nearest_and_ties_to_even)
{
    for (int k = 0; k < N_FORMATS; k++) {
        const struct format *f = &formats[k];
        for (uint32_t a = 0; a + 1 < infinity_of(f); a++) {
            double lower = meaning(f, a), upper = meaning(f, a + 1);
            uint32_t middle = bits_of((float)((lower + upper) / 2));
            if ((double)float_of(middle) != (lower + upper) / 2)
                TEST_FAIL("the middle above %04x is no f32", a);
            for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
                uint32_t s = sign << 16;
                ASSERT_EQ(f->encode(float_of(s | (middle - 1))), sign | a);
                ASSERT_EQ(f->encode(float_of(s | middle)), sign | (a + (a & 1)));
                ASSERT_EQ(f->encode(float_of(s | (middle + 1))), sign | (a + 1));
            }
        }
    }
}

TEST(values_too_large_become_infinite)
{
    ASSERT_EQ(lk_f16_encode(65504.0F), 0x7bff);
    ASSERT_EQ(lk_f16_encode(float_of(bits_of(65520.0F) - 1)), 0x7bff);
    ASSERT_EQ(lk_f16_encode(65520.0F), 0x7c00);
    ASSERT_EQ(lk_f16_encode(-1e30F), 0xfc00);
    ASSERT_EQ(lk_bf16_encode(float_of(0x7f7f7fff)), 0x7f7f);
    ASSERT_EQ(lk_bf16_encode(float_of(0x7f7f8000)), 0x7f80);
    ASSERT_EQ(lk_bf16_encode(float_of(0xff7fffff)), 0xff80);
}

TEST(values_too_small_become_zero_with_their_sign)
{
    ASSERT_EQ(lk_f16_encode(0x1p-25F), 0);
    ASSERT_EQ(lk_f16_encode(float_of(bits_of(0x1p-25F) + 1)), 1);
    ASSERT_EQ(lk_f16_encode(-0x1p-149F), 0x8000);
    ASSERT_EQ(lk_bf16_encode(-0x1p-149F), 0x8000);
}

TEST(arrays_give_the_same_bits_as_single_values)
{
    enum { N = 1 << 12 };
    static uint16_t all[N_VALUES], h[N];
    static float x[N_VALUES];
    for (uint32_t i = 0; i < N_VALUES; i++)
        all[i] = (uint16_t)i;
    for (int k = 0; k < N_FORMATS; k++) {
        const struct format *f = &formats[k];
        f->decode_array(N_VALUES, all, x);
        for (uint32_t i = 0; i < N_VALUES; i++)
            ASSERT_EQ(bits_of(x[i]), bits_of(f->decode((uint16_t)i)));
        const uint64_t step = TEST_SLOWNESS > 1 ? 8311 : 83; /* of all f32, NaNs included */
        for (uint64_t u = 0; u >> 32 == 0;) {
            for (int i = 0; i < N; i++, u += step)
                x[i] = float_of((uint32_t)u);
            f->encode_array(N, x, h);
            for (int i = 0; i < N; i++)
                if (h[i] != f->encode(x[i]))
                    TEST_FAIL("%08x: %04x vs %04x", bits_of(x[i]), h[i], f->encode(x[i]));
        }
    }
}

TEST(arrays_stop_at_their_end)
{
    static const float x[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    for (int k = 0; k < N_FORMATS; k++)
        for (int64_t n = 0; n < 20; n++) {
            uint16_t h[21];
            float y[21];
            memset(h, 0xaa, sizeof h);
            memset(y, 0xaa, sizeof y);
            formats[k].encode_array(n, x, h);
            formats[k].decode_array(n, h, y);
            ASSERT_EQ(h[n], 0xaaaa);
            ASSERT_EQ(bits_of(y[n]), 0xaaaaaaaa);
            ASSERT_SAME_BITS(y, x, (size_t)n * sizeof x[0]);
        }
}
