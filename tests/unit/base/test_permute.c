/* The keyed permutation: a bijection of every range, fair, and the same however it is cut. */
#include "base/random/philox.h"
#include "harness.h"

#include <lockstep/rng.h>

static int64_t out[1 << 16];

static void expect_permutation(int64_t count)
{
    static unsigned char seen[1 << 16];
    memset(seen, 0, sizeof seen);
    ASSERT_OK(lk_rng_permute(lk_rng_start(count, "data", "order"), 3, count, 0, count, out));
    for (int64_t i = 0; i < count; i++) {
        ASSERT_TRUE(out[i] >= 0 && out[i] < count && !seen[out[i]]);
        seen[out[i]] = 1;
    }
}

TEST(every_small_range_is_permuted)
{
    for (int64_t count = 0; count <= 300; count++)
        expect_permutation(count);
}

TEST(ranges_around_powers_of_two_and_primes_are_permuted)
{
    static const int64_t counts[] = {1009, 1023,  1024,  1025,  4095,
                                     4097, 10007, 60000, 65521, 65536};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        expect_permutation(counts[i]);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

TEST(huge_ranges_give_distinct_values_in_range)
{
    enum { N = 20000 };
    static const int64_t counts[] = {INT64_MAX, INT64_C(1) << 62, (INT64_C(1) << 62) + 1,
                                     INT64_C(1000000007) * 998244353};
    for (int k = 0; k < 4; k++) {
        lk_rng rng = lk_rng_start(k, "data", "order");
        ASSERT_OK(lk_rng_permute(rng, 0, counts[k], 0, N / 2, out));
        ASSERT_OK(lk_rng_permute(rng, 0, counts[k], counts[k] - N / 2, N / 2, out + N / 2));
        double mean = 0;
        for (int i = 0; i < N; i++) {
            ASSERT_TRUE(out[i] >= 0 && out[i] < counts[k]);
            mean += (double)out[i] / (double)counts[k] / N;
        }
        ASSERT_NEAR(mean, 0.5, 5 * sqrt(1.0 / 12 / N));
        qsort(out, N, sizeof out[0], compare);
        for (int i = 1; i < N; i++)
            ASSERT_TRUE(out[i] != out[i - 1]);
    }
}

/* The sample of one place, word by word as permute.c says: rounds until it is in the range. */
static int64_t place_of(lk_rng rng, int64_t epoch, int64_t count, int64_t place)
{
    int bits = 0;
    while (bits < 63 && INT64_C(1) << bits < count)
        bits++;
    uint64_t v = (uint64_t)place, low = (UINT64_C(1) << bits / 2) - 1;
    uint64_t high = (UINT64_C(1) << (bits - bits / 2)) - 1;
    do {
        uint64_t x = v & low, y = v >> bits / 2;
        for (uint32_t round = 0; round < 12; round++) {
            uint32_t word[4], counter[4] = {(uint32_t)(round % 2 ? y : x), round, (uint32_t)epoch,
                                            (uint32_t)((uint64_t)epoch >> 32)};
            lk__philox4x32(counter, rng.key, word);
            if (round % 2)
                x ^= word[0] & low;
            else
                y ^= word[0] & high;
        }
        v = y << bits / 2 | x;
    } while (v >= (uint64_t)count);
    return (int64_t)v;
}

TEST(each_place_has_the_sample_of_the_definition)
{
    static const int64_t counts[] = {1, 2, 3, 5, 33, 100, 3200, 60000, (INT64_C(1) << 40) + 1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int64_t epoch = 0; epoch < INT64_C(1) << 40; epoch += INT64_C(3) << 38) {
            lk_rng rng = lk_rng_start(epoch, "data", "order");
            int64_t n = counts[i] < 500 ? counts[i] : 500, first = counts[i] - n;
            ASSERT_OK(lk_rng_permute(rng, epoch, counts[i], first, n, out));
            for (int64_t k = 0; k < n; k++)
                ASSERT_EQ(out[k], place_of(rng, epoch, counts[i], first + k));
        }
}

TEST(parts_of_an_order_are_the_order)
{
    int64_t part[1000];
    lk_rng rng = lk_rng_start(1, "data", "order");
    ASSERT_OK(lk_rng_permute(rng, 9, 1000, 0, 1000, out));
    for (int64_t cut = 0; cut <= 1000; cut += 125) {
        ASSERT_OK(lk_rng_permute(rng, 9, 1000, 0, cut, part));
        ASSERT_OK(lk_rng_permute(rng, 9, 1000, cut, 1000 - cut, part + cut));
        ASSERT_SAME_BITS(part, out, sizeof part);
    }
}

TEST(another_epoch_or_stream_is_another_order)
{
    int64_t a[100], b[100], c[100];
    ASSERT_OK(lk_rng_permute(lk_rng_start(1, "d", "o"), 0, 100, 0, 100, a));
    ASSERT_OK(lk_rng_permute(lk_rng_start(1, "d", "o"), 1, 100, 0, 100, b));
    ASSERT_OK(lk_rng_permute(lk_rng_start(2, "d", "o"), 0, 100, 0, 100, c));
    ASSERT_TRUE(memcmp(a, b, sizeof a) != 0 && memcmp(a, c, sizeof a) != 0);
}

/* All orders of 2 to 5 things come equally often over many epochs (chi-squared, 5 deviations). */
TEST(all_orders_are_equally_likely)
{
    enum { EPOCHS = 24000 };
    lk_rng rng = lk_rng_start(1, "data", "fair");
    int orders = 1;
    for (int n = 2; n <= 5; n++) {
        static int counts[120];
        memset(counts, 0, sizeof counts);
        orders *= n;
        for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
            int64_t p[5];
            ASSERT_OK(lk_rng_permute(rng, epoch, n, 0, n, p));
            int code = 0; /* its number in the factorial system */
            for (int i = 0; i < n; i++) {
                int below = 0;
                for (int j = i + 1; j < n; j++)
                    below += p[j] < p[i];
                code = code * (n - i) + below;
            }
            counts[code]++;
        }
        double chi2 = 0, expect = (double)EPOCHS / orders;
        for (int i = 0; i < orders; i++)
            chi2 += (counts[i] - expect) * (counts[i] - expect) / expect;
        ASSERT_NEAR(chi2, orders - 1, 5 * sqrt(2.0 * orders));
    }
}

/* Where each of 64 things goes is uniform over the epochs. */
TEST(every_place_is_equally_likely)
{
    enum { N = 64, EPOCHS = 6400 };
    static int counts[N][N];
    lk_rng rng = lk_rng_start(2, "data", "fair");
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        ASSERT_OK(lk_rng_permute(rng, epoch, N, 0, N, out));
        for (int i = 0; i < N; i++)
            counts[i][out[i]]++;
    }
    double chi2 = 0, expect = (double)EPOCHS / N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            chi2 += (counts[i][j] - expect) * (counts[i][j] - expect) / expect;
    ASSERT_NEAR(chi2, (N - 1) * (N - 1), 5 * sqrt(2.0 * (N - 1) * (N - 1)));
}

TEST(places_outside_the_range_are_refused)
{
    lk_rng rng = lk_rng_start(0, "", "");
    ASSERT_FAILS(lk_rng_permute(rng, 0, 0, 0, 1, out), LK_EINVAL, "1 places from 0 on");
    ASSERT_FAILS(lk_rng_permute(rng, 0, 10, 8, 3, out), LK_EINVAL, "not in [0, 10)");
    ASSERT_FAILS(lk_rng_permute(rng, 0, 10, -1, 3, out), LK_EINVAL, "from -1 on");
    ASSERT_FAILS(lk_rng_permute(rng, 0, 10, 1, -1, out), LK_EINVAL, "-1 places");
    ASSERT_FAILS(lk_rng_permute(rng, 0, -5, 0, 0, out), LK_EINVAL, "[0, -5)");
    ASSERT_FAILS(lk_rng_permute(rng, -1, 10, 0, 1, out), LK_EINVAL, "epoch -1");
    ASSERT_FAILS(lk_rng_permute(rng, 0, INT64_MAX, 5, INT64_MAX, out), LK_EINVAL, "places from 5");
    ASSERT_FAILS(lk_rng_permute(rng, 0, 10, 0, 1, NULL), LK_EINVAL, "out is NULL");
    ASSERT_OK(lk_rng_permute(rng, 0, 0, 0, 0, NULL));
}
