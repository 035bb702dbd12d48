/* Words for people: counted things, and what a terminal adds, colours and a progress line.  Logs and pipes get
 * neither of these. */
#ifndef LK_CLI_TERM_H
#define LK_CLI_TERM_H

#include <lockstep/api.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** What is put behind the word for `n` of them, as in printf("%d rank%s", n, plural(n)). */
static inline const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/** Whether to colour what goes to `to`: a terminal, TERM is not "dumb" and NO_COLOR is not set. */
bool term_has_colour(FILE *to);

/* Escape sequences for report_cell.colour. */
#define TERM_GREEN "\033[32m"
#define TERM_RED "\033[1;31m"
#define TERM_DIM "\033[2m"
#define TERM_BOLD "\033[1m"
#define TERM_RESET "\033[0m"

/** If stderr is a terminal, let processes that are started from here know, by its columns as
 * LK_TERMINAL in their environment, with "both" if stdout is one as well: what they print gets there
 * through a launcher's pipe.  If stdout gets no colours, theirs does not either. */
void term_pass_on(void);

/** Where notes for people go: stderr, or if it is a terminal where the progress line is, in order with
 * it. */
FILE *term_messages(void);

/** A line that says how far long work is; silent unless stderr is a terminal.  On stderr, unless stdout
 * is a terminal as well. */
typedef struct progress {
    FILE *to;
    bool shown;         /* stderr is a terminal */
    bool drawn;         /* a line is on the screen */
    double start, last; /* seconds */
    double first;       /* the fraction at the first call; -1 before */
} progress;

void progress_begin(progress *p);

/** Show that the fraction `done` of the work is done, and what is under way. */
void progress_show(progress *p, double done, const char *fmt, ...) LK_PRINTF(3, 4);

/** Take the line off the screen, before something else is printed. */
void progress_clear(progress *p);

#endif /* LK_CLI_TERM_H */
