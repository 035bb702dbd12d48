/* The error trace: a message where it happened, a frame for each forward. */
#include "base/failure.h"
#include "harness.h"

#include <string.h>
#include <wchar.h>

static lk_status fails(void)
{
    return LK_RAISE(LK_EINVAL, "the answer is %d", 42);
}

static lk_status forwards(void)
{
    return LK_TRACE(fails());
}

TEST(a_forwarded_failure_adds_a_frame)
{
    char text[1024] = "";
    ASSERT_EQ(forwards(), LK_EINVAL);
    ASSERT_EQ(lk_error_status(), LK_EINVAL);
    FILE *f = fmemopen(text, sizeof text, "w");
    ASSERT_TRUE(f);
    lk_error_print(f);
    fclose(f);
    ASSERT_TRUE(strstr(text, "error: invalid argument: the answer is 42\n"));
    ASSERT_TRUE(strstr(text, "#0 fails (tests/unit/base/test_status.c:"));
    ASSERT_TRUE(strstr(text, "#1 forwards (tests/unit/base/test_status.c:"));
    ASSERT_EQ(lk_error_status(), LK_OK);
}

static lk_status forwards_often(int times)
{
    if (times == 0)
        LK_TRY(fails());
    else
        LK_TRY(forwards_often(times - 1));
    return LK_OK;
}

TEST(frames_that_do_not_fit_are_counted)
{
    char text[4096] = "";
    ASSERT_EQ(forwards_often(40), LK_EINVAL);
    FILE *f = fmemopen(text, sizeof text, "w");
    ASSERT_TRUE(f);
    lk_error_print(f);
    fclose(f);
    ASSERT_TRUE(strstr(text, "  ... and 18 more frames\n"));
}

TEST(terminal_escapes_in_a_message_are_made_harmless)
{
    ASSERT_FAILS(LK_RAISE(LK_EIO, "file %s", "a\x1b[2Jb\nerror: c"), LK_EIO,
                 "file a\\x1b[2Jb\\x0aerror: c");
}

TEST(characters_beyond_ascii_stay_as_they_are)
{
    ASSERT_FAILS(LK_RAISE(LK_EIO, "%s", "größe 層 \xf0\x9f\x98\x80"), LK_EIO,
                 "größe 層 \xf0\x9f\x98\x80");
}

TEST(what_is_no_utf8_and_what_turns_text_is_escaped)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"\x9b[2J", "\\x9b[2J"},                      /* a lone control byte of 8-bit terminals */
        {"\xc2\x9b", "\\xc2\\x9b"},                   /* the same as a character */
        {"\xc0\x80", "\\xc0\\x80"},                   /* overlong */
        {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf"},          /* overlong */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond the last character */
        {"\xe2\x80\xae", "\\xe2\\x80\\xae"},          /* right-to-left override */
        {"\xe2\x82", "\\xe2\\x82"},                   /* cut off */
        {"\xff\x7f", "\\xff\\x7f"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ASSERT_EQ(LK_RAISE(LK_EIO, "%s", cases[i].in), LK_EIO);
        ASSERT_TRUE(strcmp(lk_error_message(), cases[i].out) == 0);
    }
}

TEST(a_long_message_is_cut_at_a_character)
{
    char text[700], expect[512];
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 3); /* a-umlaut */
    ASSERT_EQ(LK_RAISE(LK_EIO, "%s", text), LK_EIO);
    memcpy(expect, text, 508);
    memcpy(expect + 508, "...", 4);
    ASSERT_TRUE(strcmp(lk_error_message(), expect) == 0);
}

TEST(a_message_may_quote_the_last_one)
{
    ASSERT_EQ(fails(), LK_EINVAL);
    ASSERT_FAILS(LK_RAISE(LK_EIO, "because %s!", lk_error_message()), LK_EIO,
                 "because the answer is 42!");
}

/* The caller says where, and the failure stays what it was. */
TEST(a_prefix_keeps_status_and_frames)
{
    char text[1024] = "", much[600];
    ASSERT_EQ(forwards(), LK_EINVAL);
    lk__error_prefix("layer %s:\x1b ", "conv1");
    ASSERT_EQ(lk_error_status(), LK_EINVAL);
    ASSERT_TRUE(strcmp(lk_error_message(), "layer conv1:\\x1b the answer is 42") == 0);
    FILE *f = fmemopen(text, sizeof text, "w");
    ASSERT_TRUE(f);
    lk_error_print(f);
    fclose(f);
    ASSERT_TRUE(strstr(text, "#0 fails (tests/unit/base/test_status.c:"));
    ASSERT_TRUE(strstr(text, "#1 forwards (tests/unit/base/test_status.c:"));
    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    ASSERT_EQ(fails(), LK_EINVAL);
    lk__error_prefix("%s", much);
    ASSERT_EQ(strlen(lk_error_message()), 511);
    lk_error_clear();
}

static lk_status fails_without_a_message(void)
{
    return LK_ENOMEM;
}

static lk_status forwards_what_nobody_raised(void)
{
    return LK_TRACE(fails_without_a_message());
}

TEST(a_status_that_nobody_raised_does_not_get_the_message_of_another)
{
    char text[1024] = "";
    ASSERT_EQ(forwards(), LK_EINVAL);
    ASSERT_EQ(forwards_what_nobody_raised(), LK_ENOMEM);
    ASSERT_EQ(lk_error_status(), LK_ENOMEM);
    ASSERT_TRUE(strcmp(lk_error_message(), "") == 0);
    FILE *f = fmemopen(text, sizeof text, "w");
    ASSERT_TRUE(f);
    lk_error_print(f);
    fclose(f);
    ASSERT_TRUE(strstr(text, "error: out of memory\n  #0 forwards_what_nobody_raised ("));
    ASSERT_TRUE(!strstr(text, "#1"));
}

/* A character that no locale has makes vsnprintf() fail. */
TEST(a_message_that_cannot_be_formatted_is_its_format)
{
    const wchar_t none[] = {(wchar_t)0x7fffffff, 0};
    ASSERT_FAILS(LK_RAISE(LK_EIO, "a file %ls", none), LK_EIO, "a file %ls");
    ASSERT_EQ(fails(), LK_EINVAL);
    lk__error_prefix("layer %ls: ", none);
    ASSERT_TRUE(strcmp(lk_error_message(), "layer %ls: the answer is 42") == 0);
    lk_error_clear();
}

TEST(every_status_has_a_text)
{
#define X(code, text) ASSERT_TRUE(strcmp(lk_status_text(LK_##code), text) == 0);
    LK_STATUS_MAP(X)
#undef X
    ASSERT_TRUE(strcmp(lk_status_text((lk_status)999), "unknown status") == 0);
    ASSERT_TRUE(strcmp(lk_status_text((lk_status)-1), "unknown status") == 0);
}
