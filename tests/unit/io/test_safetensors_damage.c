/* Safetensors that are damaged, or made to harm: each is refused, and why is said. */
#include "safetensors_file.h"

static void expect_file(const char *header, size_t data, int64_t tensors)
{
    size_t n;
    unsigned char *bytes = file_make(header, data, &n);
    lk_safetensors *f;
    ASSERT_OK(file_parse(bytes, n, &f));
    ASSERT_EQ(lk_safetensors_count(f), tensors);
    lk_safetensors_close(f);
    free(bytes);
}

static void refuse(const char *header, size_t data, lk_status status, const char *message)
{
    size_t n;
    unsigned char *bytes = file_make(header, data, &n);
    lk_safetensors *f;
    ASSERT_FAILS(file_parse(bytes, n, &f), status, message);
    ASSERT_TRUE(!f);
    free(bytes);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(headers_may_have_spaces_and_any_order)
{
    expect_file("{}", 0, 0);
    expect_file("{ }  ", 0, 0);
    expect_file("{" ONE "," TWO "}", 6, 2);
    expect_file("{" TWO " , " ONE " } \n", 6, 2);
    expect_file("{\"a\": {\"data_offsets\": [0, 0], \"shape\": [0, 7], \"dtype\": \"F64\"}}", 0, 1);
    expect_file(
        "{\"__metadata__\":{},\"__metadata\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\""
        ":[0,2]}}",
        2, 1);
    /* Tensors without elements may lie anywhere between others. */
    expect_file("{\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}," ONE "," TWO "}",
                6, 3);
}

TEST(a_file_that_ends_too_early_or_late_is_refused)
{
    size_t n;
    unsigned char *bytes = file_make("{\"__metadata__\":{\"k\":\"v\"}," ONE "," TWO "}", 6, &n);
    lk_safetensors *f;
    for (size_t cut = 0; cut < n; cut++) {
        unsigned char *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        ASSERT_FAILS(file_parse(part, cut, &f), LK_EIO, "x: offset ");
        free(part);
    }
    ASSERT_OK(file_parse(bytes, n, &f));
    lk_safetensors_close(f);
    /* The header cut by its length, with the file still there. */
    for (size_t cut = 0; cut < n - 8 - 6; cut++) {
        lk__put_le(bytes, 8, cut);
        ASSERT_FAILS(file_parse(bytes, n, &f), LK_EIO, "x: offset ");
    }
    free(bytes);
    refuse("{" ONE "," TWO "}", 7, LK_EIO, "1 bytes belong to no tensor");
    refuse("{}", 3, LK_EIO, "3 bytes belong to no tensor");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(lengths_that_lie_take_no_memory)
{
    static const uint64_t lengths[] = {
        3,          (16 << 20) + 1, UINT32_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1,
        UINT64_MAX, UINT64_MAX - 7};
    size_t n;
    unsigned char *bytes = file_make("{}", 0, &n);
    lk_safetensors *f;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        lk__put_le(bytes, 8, lengths[i]);
        int64_t peak = lk_alloc_stats_now().peak_bytes;
        ASSERT_FAILS(file_parse(bytes, n, &f), LK_EIO, "x: offset 0: a header of");
        ASSERT_TRUE(lk_alloc_stats_now().peak_bytes <= peak + 4096);
    }
    free(bytes);
}

TEST(tensors_must_fill_the_file_without_holes_and_overlaps)
{
    static const char tensor[] = "{" ONE
                                 ",\"b\":{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[%s]}}";
    static const struct {
        const char *shape, *offsets, *message;
    } cases[] = {
        {"1", "5,6", "\"b\" leaves a hole before it"},
        {"3", "3,6", "\"b\" overlaps the one before it"},
        {"6", "0,6", "\"b\" overlaps the one before it"},
        {"4", "0,4", "\"b\" overlaps the one before it"},
        {"0", "2,2", "\"b\" overlaps the one before it"},
        {"0", "7,7", "\"b\" leaves a hole before it"},
        {"1", "4,5", "1 bytes belong to no tensor"},
        {"3", "4,7", "\"b\" reaches beyond the end of the file"},
        {"9223372036854775803", "4,9223372036854775807", "\"b\" reaches beyond the end"},
        {"2", "6,4", "disagree about the size"},
        {"1", "4,6", "disagree about the size"},
        {"0", "4,6", "disagree about the size"},
        {"2", "4", "data_offsets must be two numbers"},
        {"2", "", "data_offsets must be two numbers"},
        {"2", "4,6,6", "data_offsets must be two numbers"},
        {"2", "-2,0", "not a whole number"},
        {"2", "4.0,6", "not a whole number"},
        {"2", "4,18446744073709551616", "a number that is too large"},
        {"-2", "4,6", "not a whole number"},
        {"2,\"1\"", "4,6", "not a whole number"},
        {"1,1,1,1,1,1,1,1,2", "4,6", "more than 8 axes"},
        {"4194305,4194305,211106198978564", "4,8", "disagree about the size"},
        {"4294967296,4294967296", "4,4", "disagree about the size"},
        {"9223372036854775807,2", "4,6", "disagree about the size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char header[256];
        snprintf(header, sizeof header, tensor, cases[i].shape, cases[i].offsets);
        refuse(header, 6, LK_EIO, cases[i].message);
    }
}

TEST(headers_that_are_wrong_are_refused)
{
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"", "this is no safetensors file"},
        {" {" ONE "}", "this is no safetensors file"},
        {"[" ONE "]", "this is no safetensors file"},
        {"{" ONE "}{}", "more than one value"},
        {"{" ONE "," ONE "}", "\"a\" "},
        {"{" ONE ",}", "'\"' is missing"},
        {"{" ONE, "',' is missing"},
        {"{\"a\":[]}", "'{' is missing"},
        {"{\"a\":{}}", "dtype, shape or data_offsets is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", "dtype, shape or data_offsets is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         "unknown, or there twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"x\":1}}",
         "unknown, or there twice"},
        {"{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", "'\"' is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", "'[' is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[[4]],\"data_offsets\":[0,4]}}", "whole number"},
        {"{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "no UTF-8"},
        {"{\"a\\ud800\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "surrogate"},
        {"{\"__metadata__\":1," ONE "}", "'{' is missing"},
        {"{\"__metadata__\":{\"a\":1}," ONE "}", "'\"' is missing"},
        {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}," ONE "}", "'\"' is missing"},
        {"{\"__metadata__\":{},\"__metadata__\":{}," ONE "}", "__metadata__ is there twice"},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}," ONE "}", "\"k\" is there twice in __meta"},
        {"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}", "unknown, or there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(cases[i].header, 4, LK_EIO, cases[i].message);
    refuse("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, LK_ENOTSUP,
           "tensor \"a\" is of dtype \"F8_E4M3\", which is not read; tensors are of F32");
    refuse("{\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
           "\"z\":{\"dtype\":\"U8\",\"shape\":[0,1],\"data_offsets\":[0,0]}}",
           0, LK_EIO, "\"z\" is there twice");
}

TEST(one_wrong_byte_never_does_harm)
{
    size_t n;
    unsigned char *bytes = file_make("{\"__metadata__\":{\"k\":\"v\"}," ONE "," TWO "}", 6, &n);
    int refused = 0;
    for (size_t i = 0; i < n - 6; i++) {
        unsigned char keep = bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            lk_safetensors *f;
            bytes[i] = (unsigned char)(keep ^ 1 << bit);
            lk_status st = file_parse(bytes, n, &f);
            ASSERT_TRUE(st == LK_OK || st == LK_EIO || st == LK_ENOTSUP);
            refused += st != LK_OK;
            lk_safetensors_close(f);
        }
        bytes[i] = keep;
    }
    ASSERT_TRUE(refused > (int)n * 4);
    lk_error_clear();
    free(bytes);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_hundred_thousand_tensors_are_no_burden)
{
    enum { N = 100000 };
    char *header = malloc(N * 80), *at = header;
    *at++ = '{';
    for (int i = 0; i < N; i++) /* in an order that is neither that of names nor of places */
        at += sprintf(at, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                      i ? "," : "", i * 7919 % N, i * 31 % N, i * 31 % N + 1);
    strcpy(at, "}");
    size_t n;
    unsigned char *bytes = file_make(header, N, &n);
    lk_safetensors *f;
    ASSERT_OK(file_parse(bytes, n, &f));
    ASSERT_EQ(lk_safetensors_count(f), N);
    for (int i = 0; i < N; i++) {
        char name[16];
        lk_safetensors_info t;
        snprintf(name, sizeof name, "t%d", i * 7919 % N);
        int64_t k = lk_safetensors_find(f, name);
        ASSERT_OK(lk_safetensors_at(f, k, &t));
        ASSERT_EQ(t.offset, (int64_t)n - N + i * 31 % N);
    }
    lk_safetensors_close(f);
    free(bytes);
    free(header);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
