/* UTF-8, and texts from outside made safe to print: control characters that could move a terminal's
 * cursor or forge a line of a log are escaped. */
#include "base/text/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069: line breaks and direction marks. */
static bool turns_or_breaks(uint32_t c)
{
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

size_t lk__utf8_read(const char *text, size_t room, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t n = room == 0      ? 0
               : s[0] < 0x80  ? 1
               : s[0] >= 0xf8 ? 0
               : s[0] >= 0xf0 ? 4
               : s[0] >= 0xe0 ? 3
               : s[0] >= 0xc0 ? 2
                              : 0;
    if (n == 0 || n > room)
        return 0;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++) { /* stops at a terminating zero too */
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fU);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *out = c;
    return n;
}

bool lk__utf8_is(const char *text)
{
    uint32_t c;
    for (size_t n; *text; text += n)
        if ((n = lk__utf8_read(text, 4, &c)) == 0)
            return false;
    return true;
}

/* Bytes of the printable character at `s`, or 0 if it has to be escaped. */
static size_t printable_length(const char *s)
{
    uint32_t c;
    size_t n = lk__utf8_read(s, 4, &c);
    return n == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0) || turns_or_breaks(c) ? 0 : n;
}

size_t lk_sanitize_text(const char *src, char *dst, size_t size)
{
    static const char mark[] = "...";
    const char *s = src;
    size_t len = 0, room = 0; /* room: where the mark goes if the text does not fit */
    while (*s) {
        char escaped[5];
        size_t n = printable_length(s), taken = n ? n : 1;
        if (n == 0)
            n = (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)*s);
        if (len + n >= size) {
            memcpy(dst + room, mark, sizeof mark);
            return room + sizeof mark - 1;
        }
        memcpy(dst + len, taken == n ? s : escaped, n);
        len += n;
        s += taken;
        if (len + sizeof mark <= size)
            room = len;
    }
    dst[len] = '\0';
    return len;
}
