/* lk__out: growing the text of a string builder, and what is put into it: numbers, JSON, HTML.  On the thread
 * of the writer that has it. */
#include "io/out.h"

#include "base/fpenv.h"
#include "base/memory/grow.h"
#include "base/text/json.h"
#include "base/text/number.h"
#include "base/text/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 };

void lk__out_clear(lk__out *o)
{
    o->n = 0;
    o->st = LK_OK;
}

/* Room for `n` more bytes and the final zero. */
static bool reserve(lk__out *o, int64_t n)
{
    if (o->st == LK_OK && o->n + n + 1 > o->room)
        o->st = lk__grow(&o->text, &o->room, o->n + n + 1, 1);
    return o->st == LK_OK;
}

void lk__out_bytes(lk__out *o, const void *bytes, int64_t n)
{
    if (!reserve(o, n))
        return;
    if (n > 0)
        memcpy(o->text + o->n, bytes, (size_t)n);
    o->n += n;
    o->text[o->n] = '\0';
}

void lk__out_put(lk__out *o, const char *text)
{
    lk__out_bytes(o, text, (int64_t)strlen(text));
}

void lk__out_format(lk__out *o, const char *fmt, ...)
{
    char piece[PIECE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(piece, sizeof piece, fmt, args);
    va_end(args);
    lk__out_put(o, piece);
}

void lk__out_html(lk__out *o, const char *text)
{
    for (size_t n; *text; text += n) {
        uint32_t c = 0;
        n = lk__utf8_read(text, 4, &c);
        if (n == 0 || (c < 0x20 && c != '\t' && c != '\n') || (c >= 0x7f && c < 0xa0)) {
            lk__out_put(o, "\xef\xbf\xbd");
            n += n == 0;
        } else if (strchr("&<>\"'", *text)) {
            lk__out_format(o, "&#%u;", (unsigned)c);
        } else {
            lk__out_bytes(o, text, (int64_t)n);
        }
    }
}

void lk__out_json(lk__out *o, const char *text)
{
    size_t room = 6 * strlen(text) + 3;
    if (reserve(o, (int64_t)room))
        o->n += (int64_t)lk__json_quote(text, o->text + o->n, room);
}

void lk__out_real(lk__out *o, double value)
{
    LK_FP_GUARD();
    char digits[LK_NUMBER_TEXT];
    lk__out_put(o, isfinite(value) ? lk__number_show(value, digits) : "null");
}

void lk__out_short(lk__out *o, double value)
{
    char digits[LK_NUMBER_TEXT];
    if (isfinite(value)) {
        snprintf(digits, sizeof digits, "%.4g", value);
        value = strtod(digits, NULL); /* in the locale that has printed it */
    }
    lk__out_put(o, isfinite(value) ? lk__number_show(value, digits) : "not finite");
}

void lk__out_count(lk__out *o, int64_t value)
{
    char digits[LK_NUMBER_TEXT];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)value);
    for (int i = 0; i < n; i++) {
        if (i > (value < 0) && (n - i) % 3 == 0)
            lk__out_put(o, "\xe2\x80\xaf"); /* a narrow space at which no line is broken */
        lk__out_bytes(o, digits + i, 1);
    }
}

void lk__out_fixed(lk__out *o, double value, int decimals)
{
    long long scale = 1;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    long long all = llround(value * (double)scale), size = all < 0 ? -all : all;
    lk__out_format(o, "%s%lld", all < 0 ? "-" : "", size / scale);
    if (decimals > 0)
        lk__out_format(o, ".%0*lld", decimals, size % scale);
}
