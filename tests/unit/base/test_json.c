/* The reader of JSON takes what RFC 8259 allows and nothing else; quotes are read back. */
#include "base/text/json.h"
#include "base/text/text.h"
#include "faults.h"

static lk__json reader(const char *text)
{
    return (lk__json){.name = "x", .text = text, .n = (int64_t)strlen(text), .base = 8};
}

/* One text to the end of the input. */
static lk_status read_text(const char *json, lk_arena *arena, const char **out)
{
    lk__json j = reader(json);
    LK_TRY(lk__json_text(&j, arena, out));
    return LK_TRACE(lk__json_end(&j));
}

static void expect_text(const char *json, const char *want)
{
    lk_arena *arena;
    const char *got;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_OK(read_text(json, arena, &got));
    if (strcmp(got, want) != 0)
        TEST_FAIL("%s is \"%s\", not \"%s\"", json, got, want);
    lk_arena_free(arena);
}

static void refuse_text(const char *json, const char *message)
{
    lk_arena *arena;
    const char *got;
    ASSERT_OK(lk_arena_new(&arena));
    ASSERT_FAILS(read_text(json, arena, &got), LK_EIO, message);
    lk_arena_free(arena);
}

TEST(texts_are_unescaped)
{
    expect_text("\"\"", "");
    expect_text(" \t\r\n\"a b\" \n", "a b");
    expect_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    expect_text("\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_text("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_text("\"\\\\\"", "\\");
}

TEST(texts_that_are_none_are_refused_at_their_place)
{
    refuse_text("", "x: offset 8: '\"' is missing");
    refuse_text("\"ab", "x: offset 11: '\"' is missing");
    refuse_text("\"ab\\", "x: offset 12: a backslash");
    refuse_text("\"ab\\\"", "'\"' is missing");
    refuse_text("\"\\x41\"", "a backslash before");
    refuse_text("\"\\u12g4\"", "four hex digits");
    refuse_text("\"\\u12", "four hex digits");
    refuse_text("\"\\u0000\"", "no character");
    refuse_text("\"\\ud83d\"", "half a surrogate pair");
    refuse_text("\"\\ud83dx\"", "half a surrogate pair");
    refuse_text("\"\\ud83d\\u0041\"", "half a surrogate pair");
    refuse_text("\"\\ude00\"", "no character");
    refuse_text("\"a\nb\"", "x: offset 10: a byte that is no UTF-8, or a control character");
    refuse_text("\"a\" x", "x: offset 12: more than one value");
    refuse_text("'a'", "'\"' is missing");
}

TEST(bytes_that_are_no_utf8_are_refused)
{
    static const char *const wrong[] = {
        "\x80",         "\xc0\x80",         "\xc1\xbf",         "\xc3",         "\xc3\x28",
        "\xe0\x80\x80", "\xe2\x82",         "\xed\xa0\x80",     "\xed\xbf\xbf", "\xf0\x80\x80\x80",
        "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xfe",         "\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char json[16];
        snprintf(json, sizeof json, "\"%s\"", wrong[i]);
        refuse_text(json, "no UTF-8");
        ASSERT_TRUE(!lk__utf8_is(wrong[i]));
    }
    /* The first and the last character of each length. */
    expect_text("\" \x7f\"", " \x7f");
    expect_text("\"\xc2\x80\xdf\xbf\"", "\xc2\x80\xdf\xbf");
    expect_text("\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"",
                "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf");
    expect_text("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

static lk_status read_int(const char *json, int64_t *out)
{
    lk__json j = reader(json);
    LK_TRY(lk__json_int(&j, out));
    return LK_TRACE(lk__json_end(&j));
}

TEST(whole_numbers_are_read_exactly)
{
    int64_t v;
    ASSERT_OK(read_int("0", &v));
    ASSERT_EQ(v, 0);
    ASSERT_OK(read_int(" 1234567890 ", &v));
    ASSERT_EQ(v, 1234567890);
    ASSERT_OK(read_int("9223372036854775807", &v));
    ASSERT_EQ(v, INT64_MAX);
    ASSERT_FAILS(read_int("9223372036854775808", &v), LK_EIO, "too large");
    ASSERT_FAILS(read_int("99999999999999999999", &v), LK_EIO, "too large");
    static const char *const wrong[] = {"",    "-1",  "+1", "01",   "00",
                                        "1.0", "1e3", ".5", "true", "\"1\""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(read_int(wrong[i], &v), LK_EIO, "not a whole number from 0 on");
    ASSERT_FAILS(read_int("1 2", &v), LK_EIO, "more than one value");
}

/* The sum of a list of lists of numbers. */
static lk_status sum_lists(const char *json, int64_t *sum)
{
    lk__json j = reader(json);
    bool more;
    *sum = 0;
    LK_TRY(lk__json_open(&j, '['));
    for (;;) {
        LK_TRY(lk__json_more(&j, ']', &more));
        if (!more)
            break;
        LK_TRY(lk__json_open(&j, '['));
        for (;;) {
            int64_t v;
            LK_TRY(lk__json_more(&j, ']', &more));
            if (!more)
                break;
            LK_TRY(lk__json_int(&j, &v));
            *sum += v;
        }
    }
    return lk__json_end(&j);
}

TEST(lists_have_commas_between_their_items)
{
    int64_t sum;
    ASSERT_OK(sum_lists("[]", &sum));
    ASSERT_EQ(sum, 0);
    ASSERT_OK(sum_lists(" [ [ 1 , 2 ] , [ ] , [ 3 ] ] ", &sum));
    ASSERT_EQ(sum, 6);
    static const char *const wrong[] = {"[[1,2]", "[[1,2],]", "[,[1]]",   "[[1,]]",
                                        "[[,1]]", "[[1 2]]",  "[[1][2]]", "[[1,2}]",
                                        "{}",     "[[1,,2]]", "[[1]]]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(sum_lists(wrong[i], &sum), LK_EIO, "x: offset ");
}

TEST(keys_have_a_colon_behind_them)
{
    lk_arena *arena;
    const char *key;
    int64_t value;
    ASSERT_OK(lk_arena_new(&arena));
    lk__json j = reader("\"a\" : 7");
    ASSERT_OK(lk__json_key(&j, arena, &key));
    ASSERT_OK(lk__json_int(&j, &value));
    ASSERT_TRUE(strcmp(key, "a") == 0 && value == 7);
    j = reader("\"a\" 7");
    ASSERT_FAILS(lk__json_key(&j, arena, &key), LK_EIO, "x: offset 12: ':' is missing");
    lk_arena_free(arena);
}

TEST(quoted_texts_are_read_back)
{
    char all[512], quoted[6 * sizeof all + 3];
    size_t n = 0;
    for (int c = 1; c < 128; c++)
        all[n++] = (char)c;
    memcpy(all + n, "\xc3\xa9\xf0\x9f\x98\x80", 7);
    size_t length = lk__json_quote(all, quoted, sizeof quoted);
    ASSERT_EQ(length, strlen(quoted));
    for (size_t i = 0; i < length; i++)
        ASSERT_TRUE((unsigned char)quoted[i] >= 0x20 && quoted[i] != 0x7f);
    expect_text(quoted, all);
    lk__json_quote("a\xff\"b", quoted, sizeof quoted);
    ASSERT_TRUE(strcmp(quoted, "\"a\\ufffd\\\"b\"") == 0);
}

TEST(quotes_are_cut_before_a_character)
{
    char buf[16];
    for (size_t size = 3; size < sizeof buf; size++) {
        memset(buf, '#', sizeof buf);
        size_t n = lk__json_quote("a\x01\xc3\xa9", buf, size);
        ASSERT_EQ(n, strlen(buf));
        ASSERT_TRUE(n < size && buf[0] == '"' && buf[n - 1] == '"' && buf[size] == '#');
    }
    ASSERT_TRUE(strcmp(buf, "\"a\\u0001\xc3\xa9\"") == 0);
    lk__json_quote("a\x01\xc3\xa9", buf, 11);
    ASSERT_TRUE(strcmp(buf, "\"a\\u0001\"") == 0);
}

static lk_status read_something(void)
{
    lk_arena *arena;
    const char *text;
    LK_TRY(lk_arena_new(&arena));
    lk_status st = read_text("\"abc\"", arena, &text);
    lk_arena_free(arena);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_EQ(test_every_allocation_fails(read_something), 2);
}
