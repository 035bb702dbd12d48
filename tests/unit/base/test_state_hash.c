/* The hash of tensors: sums of mix(place, bits) that need no order and no whole, against the values of
 * tests/data/state_hash.py. */
#include "base/places.h"
#include "data/state_hash.h"
#include "guard.h"
#include "harness.h"

enum { N = ROWS * COLUMNS, N_KNOWN = sizeof known_sums / sizeof known_sums[0] };

static const int64_t dim[] = {ROWS, COLUMNS};

/* Elements with these bits, without gaps. */
static void array_of(const struct known_sum *k, int64_t n, const uint64_t *bits, void *out)
{
    size_t bytes = lk_dtype_size(k->dtype);
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out + (size_t)i * bytes, &bits[i], bytes);
}

/* The dense array of a box of the whole. */
static void box_of(lk_dtype dtype, const void *whole, const lk_box *box, void *out)
{
    size_t bytes = lk_dtype_size(dtype);
    lk_box_walk walk = lk_box_start(box, dim);
    while (lk_box_next(&walk))
        memcpy((char *)out + (size_t)walk.at * bytes,
               (const char *)whole + (size_t)walk.place * bytes, (size_t)walk.n * bytes);
}

TEST(another_program_finds_the_same_sums)
{
    ASSERT_EQ(N_KNOWN, LK_N_DTYPES);
    for (int d = 0; d < N_KNOWN; d++) {
        const struct known_sum *k = &known_sums[d];
        uint64_t whole[N], box[N];
        lk_hash h = lk_hash_start(), one = h;
        array_of(k, N, k->bits, whole);
        box_of(k->dtype, whole, &box_of_sums, box);
        ASSERT_TRUE(lk_hash_sum(k->dtype, 1, &k->value, 3) == k->mix);
        ASSERT_TRUE(lk_hash_sum(k->dtype, N, whole, 0) == k->whole);
        ASSERT_TRUE(lk_hash_sum_box(k->dtype, dim, &box_of_sums, box) == k->box);
        lk_hash_add_tensor(&h, "layer.weight", k->dtype, 2, dim, k->whole);
        ASSERT_TRUE(lk_hash_value(&h) == k->whole_hash);
        lk_hash_add_tensor(&one, "w", k->dtype, 1, (int64_t[]){1},
                           lk_hash_sum(k->dtype, 1, &k->value, 0));
        ASSERT_TRUE(lk_hash_value(&one) == k->hash);
    }
}

/* Each element of every pair of cuts, in every order of the four parts. */
TEST(boxes_add_up_to_the_whole)
{
    const struct known_sum *k = &known_sums[0];
    uint64_t whole[N], part[N];
    array_of(k, N, k->bits, whole);
    for (int64_t r = 0; r <= ROWS; r++)
        for (int64_t c = 0; c <= COLUMNS; c++) {
            uint64_t sum = 0;
            for (int i = 3; i >= 0; i--) {
                lk_box box = {2,
                              {i / 2 ? r : 0, i % 2 ? c : 0},
                              {i / 2 ? ROWS - r : r, i % 2 ? COLUMNS - c : c}};
                box_of(k->dtype, whole, &box, part);
                sum += lk_hash_sum_box(k->dtype, dim, &box, part);
            }
            ASSERT_TRUE(sum == k->whole);
        }
    ASSERT_TRUE(lk_hash_sum(LK_F32, 0, NULL, 5) == 0);
    lk_box scalar = {.ndim = 0};
    ASSERT_TRUE(lk_hash_sum_box(LK_F32, NULL, &scalar, &k->value) ==
                lk_hash_sum(LK_F32, 1, &k->value, 0));
}

/* Arrays that end where memory does, of all lengths, from places that cross 32 and 63 bits. */
TEST(vectors_give_the_sums_of_scalars)
{
    enum { MOST = 67 };
    static const int64_t places[] = {0, 1, 4294967290, INT64_C(1) << 40, INT64_MAX - MOST};
    if (!lk__places_has_vectors())
        return;
    for (int d = 0; d < N_KNOWN; d++) {
        lk_dtype dtype = known_sums[d].dtype;
        size_t bytes = lk_dtype_size(dtype);
        struct guard g = guard_new(MOST * bytes);
        unsigned char *data = g.data;
        for (size_t i = 0; i < MOST * bytes; i++)
            data[i] = (unsigned char)(i * i * 37 + i / 3);
        for (int64_t n = 0; n <= MOST; n++)
            for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
                const unsigned char *from = data + (size_t)(MOST - n) * bytes;
                uint64_t sum = lk__places_sum(dtype, n, from, places[p]);
                ASSERT_TRUE(lk__places_sum_vectors(dtype, n, from, places[p]) == sum);
                ASSERT_TRUE(lk_hash_sum(dtype, n, from, places[p]) == sum);
            }
        guard_free(&g);
    }
}

TEST(every_bit_and_every_exchange_shows)
{
    for (int d = 0; d < N_KNOWN; d++) {
        const struct known_sum *k = &known_sums[d];
        uint64_t bits[N], whole[N];
        memcpy(bits, k->bits, sizeof bits);
        for (int i = 0; i < N; i++)
            for (size_t b = 0; b < 8 * lk_dtype_size(k->dtype); b++) {
                bits[i] ^= UINT64_C(1) << b;
                array_of(k, N, bits, whole);
                ASSERT_TRUE(lk_hash_sum(k->dtype, N, whole, 0) != k->whole);
                bits[i] ^= UINT64_C(1) << b;
            }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < i; j++) {
                bits[i] = k->bits[j];
                bits[j] = k->bits[i];
                array_of(k, N, bits, whole);
                ASSERT_TRUE((lk_hash_sum(k->dtype, N, whole, 0) == k->whole) ==
                            (bits[i] == bits[j]));
                bits[i] = k->bits[i];
                bits[j] = k->bits[j];
            }
    }
}

/* Boxes of equal elements, at all places. */
TEST(equal_boxes_at_other_places_differ)
{
    static const float x[4];
    uint64_t seen[ROWS * COLUMNS];
    int n = 0;
    for (int64_t r = 0; r + 2 <= ROWS; r++)
        for (int64_t c = 0; c + 2 <= COLUMNS; c++) {
            lk_box box = {2, {r, c}, {2, 2}};
            seen[n] = lk_hash_sum_box(LK_F32, dim, &box, x);
            for (int i = 0; i < n; i++)
                ASSERT_TRUE(seen[i] != seen[n]);
            n++;
        }
}

/* How often a bit of the mix changes with one bit of place or element: half of the time. */
TEST(one_bit_changes_half_of_the_others)
{
    enum { SAMPLES = 4096 };
    for (int in = 0; in < 128; in++) {
        int changed[64] = {0};
        for (uint64_t i = 0; i < SAMPLES; i++) {
            int64_t place = (int64_t)(i * 7919 % 10007);
            uint64_t bits = i * UINT64_C(0x100000001b3) ^ i << 52;
            uint64_t before = lk_hash_sum(LK_F64, 1, &bits, place);
            if (in < 64)
                bits ^= UINT64_C(1) << in;
            else
                place ^= (int64_t)(UINT64_C(1) << (in - 64) % 62);
            uint64_t flips = before ^ lk_hash_sum(LK_F64, 1, &bits, place);
            for (int b = 0; b < 64; b++)
                changed[b] += (int)(flips >> b & 1);
        }
        for (int b = 0; b < 64; b++)
            if (changed[b] < SAMPLES * 2 / 5 || changed[b] > SAMPLES * 3 / 5)
                TEST_FAIL("bit %d of %s changes bit %d in %d of %d", in % 64,
                          in < 64 ? "the element" : "the place", b, changed[b], SAMPLES);
    }
}
