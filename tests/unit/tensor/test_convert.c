/* Conversions against the machine's own, at the edges, and in a foreign floating-point mode. */
#include "tensor/convert.h"
#include "tensors.h"

#include <lockstep/extra/half.h>

#include <fenv.h>
#include <math.h>

static double double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint64_t random_bits(void)
{
    return (uint64_t)test_random(INT64_C(1) << 32) << 32 | (uint64_t)test_random(INT64_C(1) << 32);
}

/* Doubles of every kind: any bits, near f32's denormals, few fraction bits (so that ties occur). */
static double random_double(int kind)
{
    uint64_t u = random_bits();
    if (kind % 3 == 1)
        u = (u & ~(UINT64_C(0x7ff) << 52)) | (uint64_t)(860 + test_random(60)) << 52;
    if (kind % 2 == 1)
        u &= ~UINT64_C(0) << (20 + test_random(10));
    return double_of(u);
}

static uint32_t f32_of(double x)
{
    uint32_t u;
    lk__store_real(LK_F32, 1, &x, (char *)&u, 1);
    return u;
}

TEST(f64_to_f32_rounds_as_the_machine_does)
{
    for (int i = 0; i < 2000000; i++) {
        double x = random_double(i);
        float f = (float)x;
        uint32_t u = f32_of(x);
        ASSERT_SAME_BITS(&u, &f, sizeof u);
    }
    static const double edges[] = {0.0,
                                   -0.0,
                                   0x1p-149,
                                   0x1p-150,
                                   0x1.000001p-150,
                                   -0x1.8p-149,
                                   0x1.fffffep127,
                                   0x1.ffffffp127,
                                   0x1.fffffefp127,
                                   0x1p-126,
                                   0x1.fffffffp-127,
                                   1e300,
                                   -1e300,
                                   0x1p-1074,
                                   0x1p-1022};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        float f = (float)edges[i];
        uint32_t u = f32_of(edges[i]);
        ASSERT_SAME_BITS(&u, &f, sizeof u);
    }
}

TEST(f32_to_f64_is_exact)
{
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 4099) {
        uint32_t bits = (uint32_t)u;
        float f;
        memcpy(&f, &bits, sizeof f);
        double expect = (double)f, got;
        lk__load_real(LK_F32, 1, (const char *)&bits, 1, &got);
        ASSERT_SAME_BITS(&got, &expect, sizeof got);
    }
    for (uint32_t bits = 0; bits < 3000; bits++) { /* the smallest denormals */
        double got;
        lk__load_real(LK_F32, 1, (const char *)&bits, 1, &got);
        ASSERT_TRUE(got == ldexp(bits, -149));
    }
}

TEST(f64_to_16_bits_is_rounded_once)
{
    /* Just above a tie of f16: through f32 it would become the tie, and go down to even. */
    double x = 1 + 0x1p-11 + 0x1p-40;
    uint16_t h;
    lk__store_real(LK_F16, 1, &x, (char *)&h, 1);
    ASSERT_EQ(h, 0x3c01);
    x = 1 + 0x1p-8 + 0x1p-40;
    lk__store_real(LK_BF16, 1, &x, (char *)&h, 1);
    ASSERT_EQ(h, 0x3f81);
}

TEST(f32_values_become_16_bits_as_in_half)
{
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 1021) {
        uint32_t bits = (uint32_t)u;
        float f;
        double x;
        uint16_t h, b;
        memcpy(&f, &bits, sizeof f);
        lk__load_real(LK_F32, 1, (const char *)&bits, 1, &x);
        lk__store_real(LK_F16, 1, &x, (char *)&h, 1);
        lk__store_real(LK_BF16, 1, &x, (char *)&b, 1);
        if (h != lk_f16_encode(f) || b != lk_bf16_encode(f))
            TEST_FAIL("%08x: %04x %04x", bits, h, b);
    }
    for (uint32_t u = 0; u < 1 << 16; u++) {
        uint16_t h = (uint16_t)u;
        double x, y;
        lk__load_real(LK_F16, 1, (const char *)&h, 1, &x);
        y = (double)lk_f16_decode(h);
        ASSERT_SAME_BITS(&x, &y, sizeof x);
        lk__load_real(LK_BF16, 1, (const char *)&h, 1, &x);
        y = (double)lk_bf16_decode(h);
        ASSERT_SAME_BITS(&x, &y, sizeof x);
    }
}

TEST(integers_round_as_the_machine_does)
{
    for (int i = 0; i < 1000000; i++) {
        int64_t v = (int64_t)random_bits() >> test_random(64);
        if (i % 2)
            v = (int64_t)((uint64_t)v & UINT64_MAX << test_random(40));
        double d = (double)v, got;
        float f = (float)v, got_f;
        lk__store_int(LK_F64, 1, &v, (char *)&got, 1);
        lk__store_int(LK_F32, 1, &v, (char *)&got_f, 1);
        ASSERT_SAME_BITS(&got, &d, sizeof d);
        ASSERT_SAME_BITS(&got_f, &f, sizeof f);
    }
    /* Beyond a tie of bf16 by 1, which a detour through double would lose. */
    int64_t v = (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1;
    uint16_t b;
    lk__store_int(LK_BF16, 1, &v, (char *)&b, 1);
    ASSERT_EQ(b, lk_bf16_encode(0x1.02p62F));
    v = INT64_MIN;
    lk__store_int(LK_BF16, 1, &v, (char *)&b, 1);
    ASSERT_EQ(b, lk_bf16_encode(-0x1p63F));
    v = 65520;
    lk__store_int(LK_F16, 1, &v, (char *)&b, 1);
    ASSERT_EQ(b, 0x7c00);
}

TEST(reals_become_integers_towards_zero_within_the_range)
{
    static const struct {
        double x;
        lk_dtype t;
        int64_t value; /* -1: does not fit */
    } cases[] = {
        {2.9, LK_I32, 2},
        {-2.9, LK_I64, -2},
        {-0.9, LK_U8, 0},
        {255.9, LK_U8, 255},
        {256.0, LK_U8, -1},
        {-1.0, LK_U8, -1},
        {2147483647.5, LK_I32, INT32_MAX},
        {2147483648.0, LK_I32, -1},
        {-2147483648.9, LK_I32, INT32_MIN},
        {-2147483649.0, LK_I32, -1},
        {0x1p63, LK_I64, -1},
        {-0x1p63, LK_I64, INT64_MIN},
        {0x1.fffffffffffffp62, LK_I64, INT64_MAX - 1023},
        {-0x1.0000000000001p63, LK_I64, -1},
        {1e300, LK_I32, -1},
        {0x1p-1074, LK_I32, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool fits = lk__first_unfit_real(cases[i].t, 1, &cases[i].x) == 1;
        ASSERT_EQ(fits, cases[i].value != -1);
        if (!fits)
            continue;
        int64_t element = 0, value;
        lk__store_real(cases[i].t, 1, &cases[i].x, (char *)&element, 1);
        lk__load_int(cases[i].t, 1, (const char *)&element, 1, &value);
        ASSERT_EQ(value, cases[i].value);
    }
    double specials[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(lk__first_unfit_real(LK_I64, 1, &specials[i]), 0);
}

TEST(integers_that_do_not_fit_are_found)
{
    int64_t v[] = {
        0, 255, 256, -1, INT32_MAX, (int64_t)INT32_MAX + 1, INT32_MIN, (int64_t)INT32_MIN - 1};
    ASSERT_EQ(lk__first_unfit_int(LK_U8, 8, v), 2);
    ASSERT_EQ(lk__first_unfit_int(LK_U8, 5, v + 3), 0);
    ASSERT_EQ(lk__first_unfit_int(LK_I32, 8, v), 5);
    ASSERT_EQ(lk__first_unfit_int(LK_I32, 2, v + 6), 1);
    ASSERT_EQ(lk__first_unfit_int(LK_I64, 8, v), 8);
    ASSERT_EQ(lk__first_unfit_int(LK_F16, 8, v), 8);
}

TEST(nans_keep_their_sign_and_upper_payload)
{
    double x = double_of(UINT64_C(0xfff0000000000001)); /* signalling, payload in the lowest bit */
    ASSERT_EQ(f32_of(x), 0xffc00000);
    x = double_of(UINT64_C(0x7ff4000000000000));
    ASSERT_EQ(f32_of(x), 0x7fe00000);
}

/* A host that rounds upwards must not change what is stored. */
TEST(the_rounding_mode_of_the_thread_does_not_matter)
{
    double x = 1 + 0x1p-30;
    int64_t v = (INT64_C(1) << 60) + 1;
    double from_v;
    uint16_t h;
    ASSERT_EQ(fesetround(FE_UPWARD), 0);
    uint32_t u = f32_of(x);
    lk__store_int(LK_F64, 1, &v, (char *)&from_v, 1);
    lk__store_real(LK_BF16, 1, &x, (char *)&h, 1);
    ASSERT_EQ(fesetround(FE_TONEAREST), 0);
    ASSERT_EQ(u, 0x3f800000);
    ASSERT_EQ(h, 0x3f80);
    ASSERT_TRUE(from_v == 0x1p60);
}
