/* Random draws: known answers, independence of how a range is cut, ranges, and fairness. */
#include "harness.h"

#include <lockstep/extra/philox.h>
#include <lockstep/rng.h>

/* The known answers that the authors of Philox publish with it. */
TEST(philox_gives_its_published_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        lk_philox4x32(kat[i].counter, kat[i].key, out);
        ASSERT_SAME_BITS(out, kat[i].out, sizeof out);
    }
}

TEST(a_place_is_one_word_of_the_documented_block)
{
    lk_rng rng = lk_rng_start(1, "fc1.weight", "init");
    const uint64_t e = UINT64_C(0xabcdef123456), s = UINT64_C(0x987654321fed);
    lk_rng_at at = {0xfedcba98, (int64_t)s, (int64_t)e};
    uint64_t b = e / 4;
    uint32_t counter[4] = {(uint32_t)b, (uint32_t)((b >> 32) | (s & 0xffff) << 16),
                           (uint32_t)(s >> 16), 0xfedcba98};
    uint32_t block[4], word;
    lk_philox4x32(counter, rng.key, block);
    ASSERT_OK(lk_rng_bits(rng, at, 1, &word));
    ASSERT_EQ(word, block[e % 4]);
    float f;
    ASSERT_OK(lk_rng_uniform_f32(rng, at, 1, &f));
    ASSERT_TRUE(f == (float)(word >> 8) / 16777216.0F);
    counter[0] = (uint32_t)(e / 2);
    counter[1] = (uint32_t)((e / 2 >> 32) | (s & 0xffff) << 16);
    lk_philox4x32(counter, rng.key, block);
    double d;
    ASSERT_OK(lk_rng_uniform_f64(rng, at, 1, &d));
    uint64_t bits = block[e % 2 * 2] | (uint64_t)block[e % 2 * 2 + 1] << 32;
    ASSERT_TRUE(d == (double)(bits >> 11) / 9007199254740992.0);
}

/* A change of these is a change of every experiment's bits: raise the numerics epoch. */
TEST(streams_keep_their_bits)
{
    lk_rng rng = lk_rng_start(1, "fc1.weight", "init");
    ASSERT_EQ(rng.key[0], 0x4522aeb7);
    ASSERT_EQ(rng.key[1], 0x6d4e174d);
    int64_t below[3], order[5];
    ASSERT_OK(lk_rng_below(rng, (lk_rng_at){0, 0, 0}, 1000, 3, below));
    ASSERT_OK(lk_rng_permute(rng, 0, 5, 0, 5, order));
    static const int64_t expect_below[] = {100, 486, 839}, expect_order[] = {2, 4, 1, 3, 0};
    ASSERT_SAME_BITS(below, expect_below, sizeof below);
    ASSERT_SAME_BITS(order, expect_order, sizeof order);
}

TEST(streams_differ_by_seed_name_and_purpose)
{
    lk_rng r[] = {lk_rng_start(1, "ab", "c"),  lk_rng_start(2, "ab", "c"),
                  lk_rng_start(1, "a", "bc"),  lk_rng_start(1, "abc", ""),
                  lk_rng_start(-1, "ab", "c"), lk_rng_start(1, "c", "ab"),
                  lk_rng_start(1, NULL, NULL), lk_rng_start(0, NULL, NULL)};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++)
            ASSERT_TRUE(memcmp(&r[i], &r[j], sizeof r[i]) != 0);
    lk_rng empty = lk_rng_start(1, "", "");
    ASSERT_SAME_BITS(&empty, &r[6], sizeof empty);
}

TEST(a_range_in_pieces_gives_the_same_bits)
{
    enum { N = 67 };
    lk_rng rng = lk_rng_start(7, "x", "cut");
    lk_rng_at at = {3, 11, 5};
    uint32_t b[N], b2[N];
    float f[N], f2[N];
    double d[N], d2[N];
    int64_t v[N], v2[N];
    ASSERT_OK(lk_rng_bits(rng, at, N, b));
    ASSERT_OK(lk_rng_uniform_f32(rng, at, N, f));
    ASSERT_OK(lk_rng_uniform_f64(rng, at, N, d));
    ASSERT_OK(lk_rng_below(rng, at, 10, N, v));
    for (int64_t cut = 0; cut <= N; cut++) {
        lk_rng_at rest = {3, 11, 5 + cut};
        ASSERT_OK(lk_rng_bits(rng, at, cut, b2));
        ASSERT_OK(lk_rng_bits(rng, rest, N - cut, b2 + cut));
        ASSERT_OK(lk_rng_uniform_f32(rng, at, cut, f2));
        ASSERT_OK(lk_rng_uniform_f32(rng, rest, N - cut, f2 + cut));
        ASSERT_OK(lk_rng_uniform_f64(rng, at, cut, d2));
        ASSERT_OK(lk_rng_uniform_f64(rng, rest, N - cut, d2 + cut));
        ASSERT_OK(lk_rng_below(rng, at, 10, cut, v2));
        ASSERT_OK(lk_rng_below(rng, rest, 10, N - cut, v2 + cut));
        ASSERT_SAME_BITS(b, b2, sizeof b);
        ASSERT_SAME_BITS(f, f2, sizeof f);
        ASSERT_SAME_BITS(d, d2, sizeof d);
        ASSERT_SAME_BITS(v, v2, sizeof v);
    }
}

TEST(steps_samples_and_elements_never_share_a_block)
{
    static const lk_rng_at at[] = {{0, 0, 0},
                                   {1, 0, 0},
                                   {0, 1, 0},
                                   {0, 0, 4},
                                   {0, 1 << 16, 0},
                                   {0, 0, INT64_C(1) << 34},
                                   {0, INT64_C(1) << 32, 0},
                                   {1 << 16, 0, 0},
                                   {0, 0, INT64_C(1) << 47}};
    enum { N = sizeof at / sizeof at[0] };
    uint32_t block[N][4];
    for (int i = 0; i < N; i++) {
        ASSERT_OK(lk_rng_bits(lk_rng_start(0, "", ""), at[i], 4, block[i]));
        for (int j = 0; j < i; j++)
            ASSERT_TRUE(memcmp(block[i], block[j], sizeof block[i]) != 0);
    }
}

TEST(uniform_draws_are_in_range_and_fair)
{
    enum { N = 1 << 16 };
    static float f[N];
    static double d[N];
    lk_rng rng = lk_rng_start(5, "u", "fair");
    ASSERT_OK(lk_rng_uniform_f32(rng, (lk_rng_at){0, 0, 0}, N, f));
    ASSERT_OK(lk_rng_uniform_f64(rng, (lk_rng_at){0, 0, 0}, N, d));
    double sum_f = 0, sum_d = 0, sum_f2 = 0, sum_d2 = 0;
    for (int i = 0; i < N; i++) {
        ASSERT_TRUE(f[i] >= 0 && f[i] < 1 && d[i] >= 0 && d[i] < 1);
        sum_f += (double)f[i], sum_d += d[i];
        sum_f2 += (double)f[i] * (double)f[i], sum_d2 += d[i] * d[i];
    }
    /* Within 5 standard deviations of the mean of x and of x^2. */
    ASSERT_NEAR(sum_f / N, 0.5, 5 * sqrt(1.0 / 12 / N));
    ASSERT_NEAR(sum_d / N, 0.5, 5 * sqrt(1.0 / 12 / N));
    ASSERT_NEAR(sum_f2 / N, 1.0 / 3, 5 * sqrt(4.0 / 45 / N));
    ASSERT_NEAR(sum_d2 / N, 1.0 / 3, 5 * sqrt(4.0 / 45 / N));
}

TEST(integers_are_in_range_and_fair)
{
    enum { N = 70000 };
    static int64_t v[N];
    static const int64_t bounds[] = {1, 2, 3, 7, 10, 1000};
    lk_rng rng = lk_rng_start(5, "i", "fair");
    for (int b = 0; b < 6; b++) {
        int64_t bound = bounds[b], counts[1000] = {0};
        ASSERT_OK(lk_rng_below(rng, (lk_rng_at){b, 0, 0}, bound, N, v));
        for (int i = 0; i < N; i++) {
            ASSERT_TRUE(v[i] >= 0 && v[i] < bound);
            counts[v[i]]++;
        }
        double chi2 = 0, expect = (double)N / (double)bound;
        for (int i = 0; i < bound; i++)
            chi2 += ((double)counts[i] - expect) * ((double)counts[i] - expect) / expect;
        ASSERT_NEAR(chi2, (double)(bound - 1), 5 * sqrt(2.0 * (double)bound));
    }
}

/* 8/3 candidates fall on each value below 3 * 2^61; taking all would favour two of three values. */
TEST(large_bounds_reject_and_stay_fair)
{
    enum { N = 30000 };
    static int64_t v[N];
    const int64_t bound = INT64_C(3) << 61;
    int64_t thirds[3] = {0}, residues[3] = {0};
    lk_rng rng = lk_rng_start(6, "i", "large");
    ASSERT_OK(lk_rng_below(rng, (lk_rng_at){0, 0, 0}, bound, N, v));
    for (int i = 0; i < N; i++) {
        ASSERT_TRUE(v[i] >= 0 && v[i] < bound);
        thirds[v[i] >> 61]++;
        residues[v[i] % 3]++;
    }
    for (int i = 0; i < 3; i++) {
        ASSERT_NEAR((double)thirds[i], N / 3.0, 5 * sqrt(N * 2.0 / 9));
        ASSERT_NEAR((double)residues[i], N / 3.0, 5 * sqrt(N * 2.0 / 9));
    }
    ASSERT_OK(lk_rng_below(rng, (lk_rng_at){0, 0, 0}, INT64_MAX, N, v));
    for (int i = 0; i < N; i++)
        ASSERT_TRUE(v[i] >= 0 && v[i] < INT64_MAX);
}

TEST(places_out_of_range_are_refused)
{
    lk_rng rng = lk_rng_start(0, "", "");
    uint32_t w[2];
    int64_t v;
    const int64_t two48 = INT64_C(1) << 48;
    ASSERT_FAILS(lk_rng_bits(rng, (lk_rng_at){-1, 0, 0}, 1, w), LK_EINVAL, "step -1");
    ASSERT_FAILS(lk_rng_bits(rng, (lk_rng_at){INT64_C(1) << 32, 0, 0}, 1, w), LK_EINVAL,
                 "step 4294967296 is not in [0, 2^32)");
    ASSERT_FAILS(lk_rng_bits(rng, (lk_rng_at){0, two48, 0}, 1, w), LK_EINVAL, "sample 2814");
    ASSERT_FAILS(lk_rng_bits(rng, (lk_rng_at){0, 0, -1}, 1, w), LK_EINVAL, "element -1");
    ASSERT_FAILS(lk_rng_bits(rng, (lk_rng_at){0, 0, two48 - 1}, 2, w), LK_EINVAL, "2 elements");
    ASSERT_OK(lk_rng_bits(rng, (lk_rng_at){0, 0, two48 - 1}, 1, w));
    ASSERT_FAILS(lk_rng_bits(rng, (lk_rng_at){0, 0, 0}, -1, w), LK_EINVAL, "-1 elements");
    ASSERT_FAILS(lk_rng_bits(rng, (lk_rng_at){0, 0, 0}, 1, NULL), LK_EINVAL, "out is NULL");
    ASSERT_OK(lk_rng_bits(rng, (lk_rng_at){0, 0, 0}, 0, NULL));
    ASSERT_FAILS(lk_rng_below(rng, (lk_rng_at){0, 0, 0}, 0, 1, &v), LK_EINVAL, "[0, 0)");
    ASSERT_FAILS(lk_rng_below(rng, (lk_rng_at){0, 0, 0}, -5, 1, &v), LK_EINVAL, "[0, -5)");
}
