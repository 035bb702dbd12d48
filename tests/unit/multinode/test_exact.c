/* Exact sums: the values are those of Python's fractions, rounded once. */
#include "harness.h"
#include "multinode/exact.h"

#include <lockstep/rng.h>

enum { MOST = 10 };

/* The bits of what is added, and of the double next to the sum: beyond the range and back, halves of the
 * last place, denormals, cancellation, any bits. */
static const struct known {
    int n;
    uint64_t x[MOST], sum;
} known[] = {
    {3, {0x7fe1ccf385ebc8a0, 0x7fe1ccf385ebc8a0, 0xffe1ccf385ebc8a0}, 0x7fe1ccf385ebc8a0},
    {2, {0x7fefffffffffffff, 0x7fefffffffffffff}, 0x7ff0000000000000},
    {2, {0xffefffffffffffff, 0xfc90000000000000}, 0xfff0000000000000},
    {2, {0x7fefffffffffffff, 0x7c8fffffffffffff}, 0x7fefffffffffffff},
    {3, {0x0000000000000001, 0x0000000000000001, 0x8000000000000001}, 0x0000000000000001},
    {2, {0x0010000000000000, 0x8000000000000001}, 0x000fffffffffffff},
    {10,
     {0x3fb999999999999a, 0x3fb999999999999a, 0x3fb999999999999a, 0x3fb999999999999a,
      0x3fb999999999999a, 0x3fb999999999999a, 0x3fb999999999999a, 0x3fb999999999999a,
      0x3fb999999999999a, 0x3fb999999999999a},
     0x3ff0000000000000},
    {2, {0x3ff0000000000000, 0x3ca0000000000000}, 0x3ff0000000000000},
    {3, {0x3ff0000000000000, 0x3cb0000000000000, 0x3ca0000000000000}, 0x3ff0000000000002},
    {3, {0x3ff0000000000000, 0x3ca0000000000000, 0x0000000000000001}, 0x3ff0000000000001},
    {3, {0xbff0000000000000, 0xbca0000000000000, 0x8000000000000001}, 0xbff0000000000001},
    {3, {0x4341c37937e08000, 0x3ff0000000000000, 0xc341c37937e08000}, 0x3ff0000000000000},
    {4,
     {0x7e37e43c8800759c, 0x3ff0000000000000, 0xfe37e43c8800759c, 0x0000000000000001},
     0x3ff0000000000000},
    {2, {0x0000000000000000, 0x8000000000000000}, 0x0000000000000000},
    {3, {0x433fffffffffffff, 0x3ff0000000000000, 0x3fe0000000000000}, 0x4340000000000000},
    {5,
     {0x269e0d37f2a74de4, 0xa6a3a4506513270e, 0x128b2f330c5c7fd0, 0x892f902bd23f0824,
      0x5d9dc9f81818e811},
     0x5d9dc9f81818e811},
    {5,
     {0x1600a35a099950d8, 0x6b0d549b6f03675a, 0x3d9c172411e20b8f, 0x8d116ece1738f7d9,
      0x9600a35a099950d8},
     0x6b0d549b6f03675a},
    {4,
     {0x39263059f28c105d, 0xa09f76b5a170b338, 0xf29d0da9953f48f1, 0xb9263059f28c105d},
     0xf29d0da9953f48f1},
    {6,
     {0xf9ebdacc0cb1e29c, 0x0becd7b03898d190, 0xdbc496cb8e81973e, 0x4a23d5962217bead,
      0x24ede6a46b4cb242, 0x1e27a1c08a6a63ec},
     0xf9ebdacc0cb1e29c},
    {4,
     {0x94e3bf911a61dbe2, 0xa38fd547923a7369, 0x5f557203301850c5, 0x8c38fb2918f135d2},
     0x5f557203301850c5},
    {3, {0x34b9b5df9e7769b1, 0xae2eb1547f150524, 0x6d76b07e881ed162}, 0x6d76b07e881ed162},
    {6,
     {0xec66a78795e761d1, 0x5c90a9587403e430, 0x3f98e2774cbd87ad, 0x2e05319acb5c7427,
      0xc7a2ea20b2f14c94, 0x14f4733f3e7d1bfb},
     0xec66a78795e761d1},
    {6,
     {0x57ee05cde00902c7, 0x72e6cc3ababced20, 0x9be4bcfc49b64a08, 0x12bd4acefaecbd38,
      0x830e07bc1e398f10, 0x2a3af4d46b0a18e8},
     0x72e6cc3ababced20},
    {4,
     {0x7d2caf82eeeacbe2, 0x0a097c976bf46c69, 0xab1031d0f646e1f4, 0xc3baea9e13deef86},
     0x7d2caf82eeeacbe2},
    {6,
     {0xb1fee08f57124242, 0x98289fcd59a54a7b, 0x9474031b7f26144b, 0x74c9df6acc011cdd,
      0xd70820fe119a72d1, 0x31fee08f57124242},
     0x74c9df6acc011cdd},
    {5,
     {0xb2715945795e8229, 0x10a3d6b2aa05e11a, 0xbb2d420f0f88080b, 0x4f426dcbb394fb36,
      0x93f448b3a5aa3c81},
     0x4f426dcbb394fb36},
    {7,
     {0xb774eb5248db40af, 0xe315128862c33a4f, 0x58d5563dab2cd31e, 0xf0ce583505c6af07,
      0x5affb2297631a992, 0x9c6539382b0537e6, 0x3774eb5248db40af},
     0xf0ce583505c6af07},
    {6,
     {0xc08b90bab2cb95a0, 0xc04541be20621c7f, 0xbfe027141cd11b06, 0x3feaad1df6f8ac14,
      0xbfead7c186ab4828, 0xbf9424ac71ef30cd},
     0xc08ce9134c15bc34},
    {6,
     {0x4087f6242731da2e, 0xbff63baa9570cc90, 0xbfdc5cb2d4b29960, 0x405852c754be08ab,
      0x3f7f791b89040627, 0xbf7c98b81ddec7d7},
     0x408af1d51656021d},
    {6,
     {0xc0516f61754cde79, 0xbfe1110587e74b7c, 0x3f7b1f8906085a17, 0xbf3f18e7059eefd7,
      0xc01c588c27cf7f3a, 0xc004eb5fa7cdc2a9},
     0xc053fe02882dbc5f},
    {6,
     {0xbf6db7fa3e668abe, 0x400e7a9ec52f1d2a, 0x405682ddd69c25fc, 0x3f37184b2eefc733,
      0xc055ad9a82c778d1, 0x40817f8308afc5bd},
     0x4081b89f5cb3545d},
    {6,
     {0x400ce45b2bf51c3e, 0xbfcb8d0e53430380, 0xbfcb1af35cafd300, 0x3f319a0295ebbcf6,
      0xbf79586365b5da31, 0xbf1f20ed453c3c8b},
     0x40096d7d6d7d38ce},
    {6,
     {0xbf34f6e8aa61b615, 0xc01fcf440dff671e, 0xbf46dacdb5f8d64a, 0x4021f53c3bd16bb2,
      0xc08da7fc5e435e6e, 0xbfe2b0e73b166300},
     0xc08da47444a2fdd9},
};

enum { N_KNOWN = sizeof known / sizeof known[0] };

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void expect_value(const lk__exact *sum, uint64_t want, int i)
{
    double value = lk__exact_value(sum);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bits != want)
        TEST_FAIL("sum %d is %a, not %a", i, value, double_of(want));
}

TEST(sums_are_rounded_once)
{
    for (int i = 0; i < N_KNOWN; i++) {
        lk__exact sum = {{0}, 0, 0, 0}, back = {{0}, 0, 0, 0};
        for (int k = 0; k < known[i].n; k++)
            lk__exact_add(&sum, double_of(known[i].x[k]));
        for (int k = known[i].n - 1; k >= 0; k--)
            lk__exact_add(&back, double_of(known[i].x[k]));
        expect_value(&sum, known[i].sum, i);
        ASSERT_SAME_BITS(&sum, &back, sizeof sum);
    }
}

/* What several have added up, number by number, is what one adds up. */
TEST(sums_are_joined_number_by_number)
{
    for (int parts = 2; parts <= 7; parts++)
        for (int i = 0; i < N_KNOWN; i++) {
            lk__exact part[7] = {{{0}, 0, 0, 0}};
            for (int k = 0; k < known[i].n; k++)
                lk__exact_add(&part[k % parts], double_of(known[i].x[k]));
            for (int p = 1; p < parts; p++)
                for (int k = 0; k < LK_EXACT_NUMBERS; k++)
                    ((int64_t *)&part[0])[k] += ((const int64_t *)&part[p])[k];
            lk__exact_carry(&part[0]);
            expect_value(&part[0], known[i].sum, i);
        }
}

/* Many numbers and their opposites, in another order, are nothing. */
TEST(what_is_taken_back_leaves_nothing)
{
    enum { N = 1 << 16 };
    static double x[N];
    int64_t order[N];
    lk__exact sum = {{0}, 0, 0, 0};
    ASSERT_OK(lk_rng_uniform_f64(lk_rng_start(1, "exact", "x"), (lk_rng_at){0}, N, x));
    ASSERT_OK(lk_rng_permute(lk_rng_start(1, "exact", "order"), 0, N, 0, N, order));
    for (int i = 0; i < N; i++)
        lk__exact_add(&sum, x[i] - 0.75);
    for (int i = 0; i < N; i++)
        lk__exact_add(&sum, -(x[order[i]] - 0.75));
    for (int k = 0; k < LK_EXACT_NUMBERS; k++)
        ASSERT_EQ(((const int64_t *)&sum)[k], 0);
}

TEST(infinities_and_nans_are_kept)
{
    const double infinite = (double)INFINITY;
    lk__exact sum = {{0}, 0, 0, 0};
    lk__exact_add(&sum, 3);
    lk__exact_add(&sum, infinite);
    ASSERT_TRUE(lk__exact_value(&sum) == infinite);
    lk__exact minus = {{0}, 0, 0, 0};
    lk__exact_add(&minus, -infinite);
    ASSERT_TRUE(lk__exact_value(&minus) == -infinite);
    lk__exact_add(&sum, -infinite);
    ASSERT_TRUE(isnan(lk__exact_value(&sum)));
    lk__exact_add(&minus, (double)NAN);
    ASSERT_TRUE(isnan(lk__exact_value(&minus)));
}
