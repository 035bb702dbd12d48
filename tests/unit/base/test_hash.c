/* The state hash: XXH64 of everything that makes two states different. */
#include "harness.h"

#include <lockstep/hash.h>

static uint64_t hash_bytes(const void *bytes, size_t n)
{
    lk_hash h = lk_hash_start();
    lk_hash_add_bytes(&h, bytes, n);
    return lk_hash_value(&h);
}

static uint64_t hash_array(const char *name, lk_dtype t, int ndim, const int64_t *dim,
                           const void *data)
{
    lk_hash h = lk_hash_start();
    ASSERT_OK(lk_hash_add_array(&h, name, t, ndim, dim, data));
    return lk_hash_value(&h);
}

TEST(the_published_values_of_xxh64_come_out)
{
    ASSERT_TRUE(hash_bytes("", 0) == UINT64_C(0xef46db3751d8e999));
    ASSERT_TRUE(hash_bytes("a", 1) == UINT64_C(0xd24ec4f1a98c6e5b));
    ASSERT_TRUE(hash_bytes("abc", 3) == UINT64_C(0x44bc2cf5ad770999));
}

TEST(a_stream_in_pieces_is_the_same_stream)
{
    unsigned char bytes[300];
    for (int i = 0; i < 300; i++)
        bytes[i] = (unsigned char)(i * 7);
    for (size_t cut = 0; cut <= 300; cut++) {
        lk_hash h = lk_hash_start();
        lk_hash_add_bytes(&h, bytes, cut);
        lk_hash copy = h;
        lk_hash_add_bytes(&h, "other", 5);
        lk_hash_add_bytes(&copy, bytes + cut, 300 - cut);
        ASSERT_TRUE(lk_hash_value(&copy) == hash_bytes(bytes, 300));
        ASSERT_TRUE(lk_hash_value(&copy) != lk_hash_value(&h));
    }
}

TEST(numbers_and_texts_are_hashed_the_same_everywhere)
{
    static const unsigned char bytes[] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,
                                          0,    0,    0,    0,    0,    0,    0,    'h',  'i'};
    lk_hash h = lk_hash_start();
    lk_hash_add_i64(&h, -2);
    lk_hash_add_text(&h, "hi");
    ASSERT_TRUE(lk_hash_value(&h) == hash_bytes(bytes, sizeof bytes));
}

TEST(equal_bytes_differ_by_name_dtype_and_shape)
{
    static const float x[6] = {0, 1, 2, 3, 4, 5};
    uint64_t v[] = {
        hash_array("w", LK_F32, 1, (int64_t[]){6}, x),
        hash_array("v", LK_F32, 1, (int64_t[]){6}, x),
        hash_array("w", LK_I32, 1, (int64_t[]){6}, x),
        hash_array("w", LK_F32, 2, (int64_t[]){2, 3}, x),
        hash_array("w", LK_F32, 2, (int64_t[]){3, 2}, x),
        hash_array("w", LK_F32, 2, (int64_t[]){1, 6}, x),
        hash_array("w", LK_F64, 1, (int64_t[]){3}, x),
        hash_array("w", LK_F32, 2, (int64_t[]){0, 6}, NULL),
        hash_array("w", LK_F32, 2, (int64_t[]){6, 0}, NULL),
        hash_array(NULL, LK_F32, 1, (int64_t[]){6}, x),
    };
    int n = (int)(sizeof v / sizeof v[0]);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            ASSERT_TRUE(v[i] != v[j]);
}

TEST(two_arrays_differ_from_one_that_spans_both)
{
    static const float x[2] = {1, 2};
    lk_hash a = lk_hash_start(), b = lk_hash_start();
    ASSERT_OK(lk_hash_add_array(&a, "xy", LK_F32, 1, (int64_t[]){1}, x));
    ASSERT_OK(lk_hash_add_array(&a, "z", LK_F32, 1, (int64_t[]){1}, x + 1));
    ASSERT_OK(lk_hash_add_array(&b, "x", LK_F32, 1, (int64_t[]){1}, x));
    ASSERT_OK(lk_hash_add_array(&b, "yz", LK_F32, 1, (int64_t[]){1}, x + 1));
    ASSERT_TRUE(lk_hash_value(&a) != lk_hash_value(&b));
}

TEST(a_shape_differs_from_values_that_look_like_one)
{
    static const int64_t zero = 0;
    ASSERT_TRUE(hash_array("w", LK_I64, 1, (int64_t[]){1}, &zero) !=
                hash_array("w", LK_I64, 2, (int64_t[]){1, 0}, NULL));
}

TEST(zeros_and_nans_are_told_apart_by_their_bits)
{
    static const uint32_t bits[] = {0, 0x80000000, 0x7fc00000, 0x7fc00001, 0xffc00000};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            ASSERT_TRUE(hash_array("x", LK_F32, 0, NULL, &bits[i]) !=
                        hash_array("x", LK_F32, 0, NULL, &bits[j]));
}

TEST(bad_arrays_leave_the_hash_as_it_was)
{
    lk_hash h = lk_hash_start();
    const int64_t big = INT64_C(1) << 62;
    ASSERT_FAILS(lk_hash_add_array(&h, "w", LK_N_DTYPES, 0, NULL, "x"), LK_EDTYPE, "array \"w\"");
    ASSERT_FAILS(lk_hash_add_array(&h, "w", LK_U8, 1, (int64_t[]){-3}, "x"), LK_EINVAL,
                 "size 0 is -3");
    ASSERT_FAILS(lk_hash_add_array(&h, "w", LK_F32, 1, &big, "x"), LK_EOVERFLOW, "* 4");
    ASSERT_FAILS(lk_hash_add_array(&h, "w", LK_U8, 1, (int64_t[]){3}, NULL), LK_EINVAL,
                 "3 elements, but data is NULL");
    ASSERT_TRUE(lk_hash_value(&h) == hash_bytes("", 0));
}

TEST(a_value_is_written_as_16_hex_digits)
{
    char buf[LK_HASH_TEXT];
    ASSERT_TRUE(strcmp(lk_hash_text(0xabc, buf), "0000000000000abc") == 0);
    ASSERT_TRUE(strcmp(lk_hash_text(UINT64_MAX, buf), "ffffffffffffffff") == 0);
}
