/* The per-thread error trace: one message and the frames it passed through. */
#include "base/failure.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

static _Thread_local lk__failure trace;

const char *lk_status_text(lk_status st)
{
    static const char *const text[] = {
#define X(code, msg) [LK_##code] = msg,
        LK_STATUS_MAP(X)
#undef X
    };
    unsigned i = (unsigned)st;
    return i < sizeof text / sizeof text[0] ? text[i] : "unknown status";
}

lk_status lk__trace(lk_status st, const char *file, int line, const char *func)
{
    if (trace.n_frames < LK__FAILURE_FRAMES)
        trace.frame[trace.n_frames++] = (lk__frame){file, func, line};
    else
        trace.n_dropped++;
    return st;
}

lk_status lk__raise(lk_status st, const char *file, int line, const char *func, const char *fmt,
                    ...)
{
    char raw[LK__FAILURE_MESSAGE + 1]; /* apart, since an argument may be the last message */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    lk_sanitize_text(raw, trace.message, sizeof trace.message);
    trace.st = st;
    trace.n_frames = 0;
    trace.n_dropped = 0;
    return lk__trace(st, file, line, func);
}

void lk__error_prefix(const char *fmt, ...)
{
    char raw[2 * LK__FAILURE_MESSAGE];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(raw, LK__FAILURE_MESSAGE, fmt, ap);
    va_end(ap);
    n = n < LK__FAILURE_MESSAGE ? n : LK__FAILURE_MESSAGE - 1;
    memcpy(raw + n, trace.message, strlen(trace.message) + 1);
    lk_sanitize_text(raw, trace.message, sizeof trace.message);
}

const char *lk_error_message(void)
{
    return trace.message;
}

lk_status lk_error_status(void)
{
    return trace.st;
}

void lk_error_clear(void)
{
    memset(&trace, 0, sizeof trace);
}

void lk__failure_get(lk__failure *out)
{
    *out = trace;
}

void lk__failure_set(const lk__failure *f)
{
    trace = *f;
}

void lk_error_print(FILE *to)
{
    if (trace.st == LK_OK)
        return;
    fprintf(to, "error: %s: %s\n", lk_status_text(trace.st), trace.message);
    for (int i = 0; i < trace.n_frames; i++)
        fprintf(to, "  #%d %s (%s:%d)\n", i, trace.frame[i].func, trace.frame[i].file,
                trace.frame[i].line);
    if (trace.n_dropped > 0)
        fprintf(to, "  ... and %d more frames\n", trace.n_dropped);
    lk_error_clear();
}
