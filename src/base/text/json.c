/* A strict reader of JSON (RFC 8259) over a text in memory, and the quoting of texts that are
 * written: see json.h. */
#include "base/text/json.h"

#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

lk_status lk__json_refuse(const lk__json *j, const char *why)
{
    return LK_RAISE(LK_EIO, "%s: offset %lld: %s", j->name, (long long)(j->base + j->at), why);
}

/* Whether the next character is there and in `set`. */
static bool next_is(const lk__json *j, const char *set)
{
    return j->at < j->n && j->text[j->at] != '\0' && strchr(set, j->text[j->at]);
}

static void skip_space(lk__json *j)
{
    while (next_is(j, " \t\r\n"))
        j->at++;
}

/* The next character that is no white space, '\0' at the end. */
static char peek(lk__json *j)
{
    skip_space(j);
    if (j->at < j->n)
        return j->text[j->at];
    return '\0';
}

static lk_status expect(lk__json *j, char c)
{
    char why[32];
    if (peek(j) == c) {
        j->at++;
        return LK_OK;
    }
    snprintf(why, sizeof why, "'%c' is missing", c);
    return lk__json_refuse(j, why);
}

lk_status lk__json_open(lk__json *j, char bracket)
{
    LK_TRY(expect(j, bracket));
    j->first = true;
    return LK_OK;
}

lk_status lk__json_more(lk__json *j, char bracket, bool *more)
{
    *more = peek(j) != bracket;
    if (!*more) {
        j->at++;
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
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
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
    char c = '\0';
    if (j->at < j->n)
        c = j->text[j->at++];
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

/* One character of a text, to `out` of at least 4 bytes. */
static lk_status character(lk__json *j, char *out, int *n)
{
    const char *s = j->text + j->at;
    uint32_t c;
    if (s[0] == '\\') {
        j->at++;
        return LK_TRACE(escape(j, out, n));
    }
    *n = (int)lk__utf8_read(s, (size_t)(j->n - j->at), &c);
    if (*n == 0 || c < 0x20)
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
    LK_TRY(lk_arena_alloc(arena, &text, room, 1));
    while (j->at < j->n && j->text[j->at] != '"') {
        int length = 0;
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
    return LK_TRACE(expect(j, ':'));
}

/* ---- numbers, and the end ---- */

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
    if (j->at == start || (j->text[start] == '0' && j->at - start > 1) || next_is(j, ".eE"))
        return lk__json_refuse(j, "not a whole number from 0 on");
    *out = value;
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
    size_t n = 0, taken;
    char piece[8];
    buf[n++] = '"';
    for (const char *s = text; *s; s += taken) {
        uint32_t c;
        int length;
        taken = lk__utf8_read(s, 4, &c);
        if (taken == 0)
            length = snprintf(piece, sizeof piece, "\\ufffd");
        else if (c == '"' || c == '\\')
            length = snprintf(piece, sizeof piece, "\\%c", *s);
        else if (c < 0x20 || c == 0x7f)
            length = snprintf(piece, sizeof piece, "\\u%04x", (unsigned)c);
        else
            length = snprintf(piece, sizeof piece, "%.*s", (int)taken, s);
        if (n + (size_t)length + 2 > size)
            break;
        memcpy(buf + n, piece, (size_t)length);
        n += (size_t)length;
        taken += taken == 0;
    }
    buf[n++] = '"';
    buf[n] = '\0';
    return n;
}
