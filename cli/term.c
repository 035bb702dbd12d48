/* Colours and the progress line. */
#include "term.h"

#include <lockstep/clock.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 24 };

bool term_has_colour(FILE *to)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(to)) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

/* Whether what goes to stderr ends on a terminal that can do more than lines. */
static bool err_is_terminal(void)
{
    const char *term = getenv("TERM"), *passed = getenv("LK_TERMINAL");
    bool is = isatty(STDERR_FILENO) || (passed && *passed);
    return is && term && strcmp(term, "dumb") != 0;
}

void term_pass_on(void)
{
    if (err_is_terminal())
        setenv("LK_TERMINAL", "1", 1);
}

static double seconds(void)
{
    return 1e-9 * (double)lk_clock_ns();
}

void progress_begin(progress *p)
{
    double now = seconds();
    *p = (progress){.start = now, .last = now - 1, .shown = err_is_terminal()};
}

void progress_show(progress *p, double done, const char *fmt, ...)
{
    double now = seconds();
    if (!p->shown || now - p->last < 0.1)
        return;
    p->last = now;
    p->drawn = true;
    char what[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    char bar[BAR + 1];
    int full = (int)(done * BAR);
    full = full < 0 ? 0 : full > BAR ? BAR : full;
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)full);
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[K[%s] %3.0f %%  ", bar, 100 * done);
    if (done > 0.02)
        fprintf(stderr, "%.0f s left  ", (now - p->start) * (1 - done) / done);
    fprintf(stderr, "%s", what);
    fflush(stderr);
}

void progress_clear(progress *p)
{
    if (p->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->drawn = false;
}
