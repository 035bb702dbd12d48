/* Numbers as text: see number.h. */
#include "base/text/number.h"

#include "base/fpenv.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const digits = "0123456789";

static const char *skip_sign(const char *text)
{
    return text + (*text == '-' || *text == '+');
}

/* How many digits of a whole number begin at `text`; 0 too where a zero leads others. */
static size_t whole_digits(const char *text)
{
    size_t n = strspn(text, digits);
    return n > 1 && text[0] == '0' ? 0 : n;
}

const char *lk__number_read_int(const char *text, int64_t *out)
{
    const char *whole = skip_sign(text);
    size_t n = whole_digits(whole);
    if (n == 0 || whole[n])
        return "is not a whole number";
    errno = 0;
    long long v = strtoll(text, NULL, 10);
    if (errno == ERANGE)
        return "is too large a number";
    *out = v;
    return NULL;
}

/* Whether `text` is a real number to its end: [sign] digits [. digits] [e [sign] digits], where
 * digits may be missing on one side of the point. */
static bool is_real(const char *text)
{
    text = skip_sign(text);
    size_t whole = whole_digits(text), fraction = 0;
    if (whole == 0 && *text != '.')
        return false;
    text += whole;
    if (*text == '.') {
        fraction = strspn(++text, digits);
        text += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text = skip_sign(text + 1);
        size_t n = strspn(text, digits);
        if (n == 0)
            return false;
        text += n;
    }
    return *text == '\0';
}

/* Whether all digits before the exponent are 0. */
static bool is_zero(const char *text)
{
    text += strcspn(text, "123456789eE");
    return *text == '\0' || *text == 'e' || *text == 'E';
}

const char *lk__number_read_real(const char *text, double *out)
{
    LK_FP_GUARD();
    if (!is_real(text))
        return "is not a number";
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return "cannot be read: the C library has no locale \"C\"";
    double v = strtod_l(text, NULL, c);
    freelocale(c);
    if (isinf(v))
        return "is too large a number";
    if (v == 0 && !is_zero(text))
        return "is too small a number";
    *out = v;
    return NULL;
}

const char *lk__number_show(double value, char *buf)
{
    LK_FP_GUARD();
    if (value == floor(value) && fabs(value) < 1e15) { /* 10, not 1e+01 */
        snprintf(buf, LK_NUMBER_TEXT, "%.0f", value);
        return buf;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(buf, LK_NUMBER_TEXT, "%.*g", precision, value);
        if (strtod(buf, NULL) == value) /* in the locale that has printed it */
            break;
    }
    size_t strange = strspn(buf, "+-.0123456789e");
    if (buf[strange]) { /* the locale's point, which may be several bytes */
        size_t n = strcspn(buf + strange, digits);
        buf[strange] = '.';
        memmove(buf + strange + 1, buf + strange + n, strlen(buf + strange + n) + 1);
    }
    return buf;
}
