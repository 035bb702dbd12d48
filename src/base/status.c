/* The last failure of each thread: its status, its message, and its trace, the frames that it passed
 * through.  LK_RAISE() begins one, LK_TRY() adds a frame; the program that called the library reads it.
 * A caller that goes on with it on another thread copies it there (failure.h).
 */
#include "base/failure.h"
#include "base/text/text.h"

#include <stdarg.h>
#include <string.h>

static _Thread_local lk__failure last; /* zeros: none */

const char *lk_status_text(lk_status st)
{
    static const char *const text[] = {
#define X(code, msg) [LK_##code] = msg,
        LK_STATUS_MAP(X)
#undef X
    };
    unsigned i = (unsigned)st; /* the enumerators are of the same table, so none is missing below */
    return i < sizeof text / sizeof text[0] ? text[i] : "unknown status";
}

/* Write at most size - 1 bytes of text and return how many they are.  Where vsnprintf() cannot (a character
 * that the locale has not, more than INT_MAX bytes), the format itself must do. */
static LK_PRINTF(3, 0) int text_format(char *out, int size, const char *fmt, va_list ap)
{
    int n = vsnprintf(out, (size_t)size, fmt, ap);
    if (n < 0)
        n = snprintf(out, (size_t)size, "%s", fmt);
    return n < size ? n : size - 1;
}

static void failure_begin(lk_status st)
{
    last.st = st;
    last.n_frames = 0;
    last.n_dropped = 0;
}

lk_status lk__trace(lk_status st, const char *file, int line, const char *func)
{
    if (st != last.st) { /* returned without LK_RAISE(): the message is that of another failure */
        failure_begin(st);
        last.message[0] = '\0';
    }
    if (last.n_frames < LK__FAILURE_FRAMES)
        last.frame[last.n_frames++] = (lk__frame){file, func, line};
    else
        last.n_dropped++;
    return st;
}

lk_status lk__raise(lk_status st, const char *file, int line, const char *func, const char *fmt,
                    ...)
{
    /* Not into last.message, which may be an argument; a byte more than it has, so that
     * lk_sanitize_text() sees that a longer text was cut, and ends it with "...". */
    char raw[LK__FAILURE_MESSAGE + 1];
    va_list ap;
    va_start(ap, fmt);
    text_format(raw, sizeof raw, fmt, ap);
    va_end(ap);
    lk_sanitize_text(raw, last.message, sizeof last.message);
    failure_begin(st);
    return lk__trace(st, file, line, func);
}

void lk__error_prefix(const char *fmt, ...)
{
    char raw[2 * LK__FAILURE_MESSAGE];
    va_list ap;
    va_start(ap, fmt);
    int n = text_format(raw, LK__FAILURE_MESSAGE, fmt, ap);
    va_end(ap);
    memcpy(raw + n, last.message, strlen(last.message) + 1);
    lk_sanitize_text(raw, last.message, sizeof last.message);
}

const char *lk_error_message(void)
{
    return last.message;
}

lk_status lk_error_status(void)
{
    return last.st;
}

void lk_error_clear(void)
{
    memset(&last, 0, sizeof last);
}

void lk__failure_get(lk__failure *out)
{
    *out = last;
}

void lk__failure_set(const lk__failure *f)
{
    last = *f;
}

void lk_error_print(FILE *to)
{
    if (last.st == LK_OK)
        return;
    fprintf(to, "error: %s%s%s\n", lk_status_text(last.st), *last.message ? ": " : "",
            last.message);
    for (int i = 0; i < last.n_frames; i++)
        fprintf(to, "  #%d %s (%s:%d)\n", i, last.frame[i].func, last.frame[i].file,
                last.frame[i].line);
    if (last.n_dropped > 0)
        fprintf(to, "  ... and %d more frames\n", last.n_dropped);
    lk_error_clear();
}
