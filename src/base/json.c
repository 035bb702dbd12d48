/* A strict reader of JSON (RFC 8259), and quotes for texts that are written. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

lk_status lk__json_refuse(const lk__json *j, const char *why)
{
    return LK_RAISE(LK_EIO, "%s: offset %lld: %s", j->name, (long long)(j->base + j->at), why);
}

static void skip_space(lk__json *j)
{
    while (j->at < j->n && memchr(" \t\r\n", j->text[j->at], 4))
        j->at++;
}

/* The next character that is no white space, '\0' at the end. */
static char peek(lk__json *j)
{
    skip_space(j);
    return j->at < j->n ? j->text[j->at] : '\0';
}

static lk_status expect(lk__json *j, char c)
{
    char why[32];
    if (peek(j) == c) {
        j->at++;
        return LK_OK;
    }
    snprintf(why, sizeof why, "'%c' is missing", c);
    LK_TRY(lk__json_refuse(j, why));
    return LK_OK;
}

lk_status lk__json_open(lk__json *j, char bracket)
{
    LK_TRY(expect(j, bracket));
    if (++j->depth > LK__JSON_DEPTH)
        return lk__json_refuse(j, "lists within lists are too deep");
    j->first = true;
    return LK_OK;
}

lk_status lk__json_more(lk__json *j, char bracket, bool *more)
{
    *more = peek(j) != bracket;
    if (!*more) {
        j->at++;
        j->depth--;
        j->first = false;
        return LK_OK;
    }
    if (!j->first)
        LK_TRY(expect(j, ','));
    j->first = false;
    return LK_OK;
}

/* ---- texts ---- */

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *found;
    char low = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    found = low ? strchr(digits, low) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Four hex digits behind "\u". */
static lk_status unit(lk__json *j, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        int digit = j->at < j->n ? hex_digit(j->text[j->at]) : -1;
        if (digit < 0)
            return lk__json_refuse(j, "\\u needs four hex digits");
        *out = *out * 16 + (uint32_t)digit;
    }
    return LK_OK;
}

static int utf8_put(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[more] | c >> 6 * more);
    for (int i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return more + 1;
}

/* What stands behind a backslash. */
static lk_status escape(lk__json *j, char *out, int *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->n ? j->text[j->at++] : '\0';
    const char *found = c ? strchr(from, c) : NULL;
    uint32_t high, low;
    if (found) {
        out[0] = to[found - from];
        *n = 1;
        return LK_OK;
    }
    if (c != 'u')
        return lk__json_refuse(j, "a backslash before a character that needs none");
    LK_TRY(unit(j, &high));
    if (high >= 0xd800 && high < 0xdc00) {
        if (j->at + 1 >= j->n || j->text[j->at] != '\\' || j->text[j->at + 1] != 'u')
            return lk__json_refuse(j, "half a surrogate pair");
        j->at += 2;
        LK_TRY(unit(j, &low));
        if (low < 0xdc00 || low >= 0xe000)
            return lk__json_refuse(j, "half a surrogate pair");
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    if (high == 0 || (high >= 0xdc00 && high < 0xe000))
        return lk__json_refuse(j, "no character");
    *n = utf8_put(high, out);
    return LK_OK;
}

/* The length of the UTF-8 character at `s`, of which `n` bytes are there; 0 if it is none. */
static int utf8_length(const unsigned char *s, int64_t n)
{
    int more = s[0] < 0x80 ? 0 : s[0] < 0xc2 ? -1 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : s[0] < 0xf5 ? 3 : -1;
    if (more < 0 || more >= n)
        return 0;
    for (int i = 1; i <= more; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return more + 1;
}

/* One character of a text, to `out` of at least 4 bytes. */
static lk_status character(lk__json *j, char *out, int *n)
{
    const unsigned char *s = (const unsigned char *)j->text + j->at;
    if (s[0] == '\\') {
        j->at++;
        LK_TRY(escape(j, out, n));
        return LK_OK;
    }
    *n = utf8_length(s, j->n - j->at);
    if (*n == 0 || s[0] < 0x20)
        return lk__json_refuse(j, "a byte that is no UTF-8, or a control character");
    memcpy(out, s, (size_t)*n);
    j->at += *n;
    return LK_OK;
}

lk_status lk__json_text(lk__json *j, lk_arena *arena, const char **out)
{
    LK_TRY(expect(j, '"'));
    const char *close = j->text + j->at, *end = j->text + j->n;
    while (close < end && *close != '"')
        close += *close == '\\' && close + 1 < end ? 2 : 1;
    int64_t room = (close < end ? close : end) - (j->text + j->at) + 5, n = 0;
    char *text = NULL;
    if (room > LK__JSON_TEXT)
        return lk__json_refuse(j, "a text that is too long");
    LK_TRY(lk_arena_alloc(arena, &text, room, 1));
    while (j->at < j->n && j->text[j->at] != '"') {
        int length;
        LK_TRY(character(j, text + n, &length));
        n += length;
    }
    LK_TRY(expect(j, '"'));
    *out = text;
    return LK_OK;
}

lk_status lk__json_key(lk__json *j, lk_arena *arena, const char **out)
{
    LK_TRY(lk__json_text(j, arena, out));
    LK_TRY(expect(j, ':'));
    return LK_OK;
}

/* ---- numbers and other values ---- */

lk_status lk__json_int(lk__json *j, int64_t *out)
{
    int64_t value = 0, start;
    (void)peek(j);
    start = j->at;
    for (; j->at < j->n && j->text[j->at] >= '0' && j->text[j->at] <= '9'; j->at++) {
        int digit = j->text[j->at] - '0';
        if (value > (INT64_MAX - digit) / 10)
            return lk__json_refuse(j, "a number that is too large");
        value = value * 10 + digit;
    }
    if (j->at == start || (j->text[start] == '0' && j->at - start > 1) ||
        (j->at < j->n && memchr(".eE", j->text[j->at], 3)))
        return lk__json_refuse(j, "not a whole number from 0 on");
    *out = value;
    return LK_OK;
}

static lk_status skip_list(lk__json *j, lk_arena *arena, char open, char close)
{
    bool more = true;
    const char *key;
    LK_TRY(lk__json_open(j, open));
    for (;;) {
        LK_TRY(lk__json_more(j, close, &more));
        if (!more)
            return LK_OK;
        if (open == '{')
            LK_TRY(lk__json_key(j, arena, &key));
        LK_TRY(lk__json_skip(j, arena));
    }
}

/* true, false, null or a number. */
static lk_status skip_word(lk__json *j)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        int64_t n = (int64_t)strlen(words[i]);
        if (j->n - j->at >= n && memcmp(j->text + j->at, words[i], (size_t)n) == 0) {
            j->at += n;
            return LK_OK;
        }
    }
    int64_t start = j->at;
    while (j->at < j->n && j->text[j->at] && strchr("+-.0123456789eE", j->text[j->at]))
        j->at++;
    if (j->at == start)
        return lk__json_refuse(j, "no value");
    return LK_OK;
}

lk_status lk__json_skip(lk__json *j, lk_arena *arena)
{
    const char *text;
    char c = peek(j);
    if (c == '{')
        LK_TRY(skip_list(j, arena, '{', '}'));
    else if (c == '[')
        LK_TRY(skip_list(j, arena, '[', ']'));
    else if (c == '"')
        LK_TRY(lk__json_text(j, arena, &text));
    else
        LK_TRY(skip_word(j));
    return LK_OK;
}

lk_status lk__json_end(lk__json *j)
{
    skip_space(j);
    if (j->at != j->n)
        return lk__json_refuse(j, "more than one value");
    return LK_OK;
}

/* ---- writing ---- */

size_t lk__json_quote(const char *text, char *buf, size_t size)
{
    size_t n = 0;
    char piece[8];
    buf[n++] = '"';
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int length = utf8_length(s, 4), out;
        if (*s == '"' || *s == '\\')
            out = snprintf(piece, sizeof piece, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f || length == 0)
            out = snprintf(piece, sizeof piece, "\\u%04x", *s);
        else
            out = snprintf(piece, sizeof piece, "%.*s", length, (const char *)s);
        if (n + (size_t)out + 2 > size)
            break;
        memcpy(buf + n, piece, (size_t)out);
        n += (size_t)out;
        s += length ? length : 1;
    }
    buf[n++] = '"';
    buf[n] = '\0';
    return n;
}
