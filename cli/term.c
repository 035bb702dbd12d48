/* Colours and the progress line of a terminal: see term.h. */
#include "term.h"

#include <lockstep/extra/clock.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR = 24, SHORT_BAR = 8, LINE = 512 };

bool term_has_colour(FILE *to)
{
    const char *no_color = secure_getenv("NO_COLOR"), *term = secure_getenv("TERM");
    return isatty(fileno(to)) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

/* Whether what goes to stderr ends on a terminal that can do more than lines. */
static bool err_is_terminal(void)
{
    const char *term = secure_getenv("TERM"), *passed = secure_getenv("LK_TERMINAL");
    bool is = isatty(STDERR_FILENO) || (passed && *passed);
    return is && term && strcmp(term, "dumb") != 0;
}

/* The columns of that terminal; what is unknown is taken to be 80. */
static int err_width(void)
{
    struct winsize size = {0};
    const char *passed = secure_getenv("LK_TERMINAL");
    long width = passed ? strtol(passed, NULL, 10) : 0;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    return width <= 1 ? 80 : width < LINE ? (int)width : LINE;
}

/* Where the progress line goes: to stdout if that is a terminal as well.  Launchers pass the two on one
 * after the other, so that rows on stdout would end up behind a line that is still there. */
static FILE *line_stream(void)
{
    const char *passed = secure_getenv("LK_TERMINAL");
    bool both = passed ? strstr(passed, "both") != NULL : isatty(STDOUT_FILENO);
    return both ? stdout : stderr;
}

FILE *term_messages(void)
{
    return err_is_terminal() ? line_stream() : stderr;
}

void term_pass_on(void)
{
    char terminal[32];
    snprintf(terminal, sizeof terminal, "%d%s", err_width(),
             line_stream() == stdout ? " both" : "");
    if (err_is_terminal())
        setenv("LK_TERMINAL", terminal, 1);
    if (!term_has_colour(stdout)) /* some launchers give their ranks a terminal of their own */
        setenv("NO_COLOR", "1", 1);
}

static double seconds(void)
{
    return 1e-9 * (double)lk_clock_ns();
}

void progress_begin(progress *p)
{
    double now = seconds();
    *p = (progress){.start = now,
                    .last = now - 1,
                    .first = -1,
                    .to = term_messages(),
                    .shown = err_is_terminal()};
}

/* How long the rest takes if it goes on as since the first call. */
static void print_left(const progress *p, double now, double done, char *out, size_t size)
{
    out[0] = '\0';
    if (done - p->first <= 0.02)
        return;
    long long s = (long long)((now - p->start) * (1 - done) / (done - p->first) + 0.5);
    if (s < 100)
        snprintf(out, size, "%lld s left  ", s);
    else
        snprintf(out, size, "%lld:%02lld:%02lld left  ", s / 3600, s / 60 % 60, s % 60);
}

void progress_show(progress *p, double done, const char *fmt, ...)
{
    double now = seconds();
    if (!p->shown || now - p->last < 0.1)
        return;
    if (p->first < 0) { /* work that is resumed does not begin at 0 */
        p->first = done;
        p->start = now;
    }
    p->last = now;
    p->drawn = true;
    char what[64], left[32], bar[BAR + 1], rest[LINE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    print_left(p, now, done, left, sizeof left);
    int width = err_width() - 1; /* one that is wrapped could not be taken off the screen */
    int length = snprintf(rest, sizeof rest, " %3.0f %%  %s%s", 100 * done, left, what);
    int n = width - 2 - length;
    n = n > BAR ? BAR : n < SHORT_BAR ? SHORT_BAR : n;
    int full = (int)(done * n + 0.5);
    full = full < 0 ? 0 : full > n ? n : full;
    memset(bar, '.', (size_t)n);
    memset(bar, '#', (size_t)full);
    bar[n] = '\0';
    fprintf(p->to, "\r\033[K[%s]%.*s", bar, width > n + 2 ? width - n - 2 : 0, rest);
    fflush(p->to);
}

void progress_clear(progress *p)
{
    if (p->drawn) {
        fputs("\r\033[K", p->to);
        fflush(p->to);
    }
    p->drawn = false;
}
