/* Tables: aligned text or one JSON object a line. */
#include "report.h"

#include "term.h"

#include <lockstep/text.h>

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CELL_SIZE = 256 };

/* Of the first write to stdout that failed; 0: none did. */
static int first_error;

static atomic_bool outlives; /* the reader of stdout */

void report_outlive(void)
{
    atomic_store(&outlives, true);
}

/* Whether stdout is a pipe that nobody reads any more. */
static bool reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int report_flush(void)
{
    int error = fflush(stdout) != 0 ? errno : ferror(stdout) ? EIO : 0;
    if (error != 0 && reader_left()) {
        if (!atomic_load(&outlives)) {
            signal(SIGPIPE, SIG_DFL);
            raise(SIGPIPE);
        }
        error = 0;
    }
    if (first_error == 0)
        first_error = error;
    return first_error;
}

double report_plain(double v)
{
    return isnan(v) ? (double)NAN : v;
}

void report_json_text(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20)
            printf("\\u%04x", *c);
        else
            putchar(*c);
    putchar('"');
}

void report_json_real(double v)
{
    if (isfinite(v))
        printf("%.6g", v);
    else
        printf("null");
}

static void print_json(const report *r, const report_cell *cell)
{
    const char *separator = "{";
    for (int i = 0; i < r->n; i++) {
        if (!r->column[i].key || cell[i].kind == CELL_NONE)
            continue;
        printf("%s", separator);
        separator = ", ";
        report_json_text(r->column[i].key);
        printf(": ");
        switch (cell[i].kind) {
        case CELL_TEXT: report_json_text(cell[i].text); break;
        case CELL_INT: printf("%lld", (long long)cell[i].integer); break;
        case CELL_REAL: report_json_real(cell[i].real); break;
        case CELL_BOOL: printf(cell[i].integer ? "true" : "false"); break;
        case CELL_NONE: break;
        }
    }
    printf("%s}\n", *separator == '{' ? "{" : "");
}

/* Print text in its column's width; the last of a line has no blanks behind it. */
static void print_text(const report *r, int i, bool last, const char *text, const char *colour)
{
    int width = last && r->column[i].width < 0 ? 0 : r->column[i].width;
    if (colour && r->colour)
        printf("%s%*s%s", colour, width, text, TERM_RESET);
    else
        printf("%*s", width, text);
}

/* What a cell shows in the table; `number` is room for it. */
static const char *cell_shows(const report_cell *c, char *number, size_t size)
{
    switch (c->kind) {
    case CELL_INT: snprintf(number, size, "%lld", (long long)c->integer); return number;
    case CELL_REAL:
        snprintf(number, size, c->decimals < 0 ? "%.*e" : "%.*f", abs(c->decimals),
                 report_plain(c->real));
        return number;
    case CELL_TEXT: lk_text_clean(c->text, number, size); return number; /* from a file, perhaps */
    default: return c->text;
    }
}

static void print_cell(const report *r, int i, bool last, const report_cell *c)
{
    char number[CELL_SIZE];
    print_text(r, i, last, cell_shows(c, number, sizeof number), c->colour);
}

static void print_line(const report *r, const report_cell *cell)
{
    int last = r->n - 1;
    while (last > 0 && (!r->column[last].title ||
                        ((cell[last].kind == CELL_TEXT) && cell[last].text[0] == '\0')))
        last--;
    const char *separator = "";
    for (int i = 0; i <= last; i++)
        if (r->column[i].title) {
            printf("%s", separator);
            separator = "  ";
            print_cell(r, i, i == last, &cell[i]);
        }
    putchar('\n');
}

static void widen(report_column *column, const char *text)
{
    int len = (int)strlen(text);
    if (column->width < 0 && -column->width < len)
        column->width = -len;
    else if (column->width >= 0 && column->width < len)
        column->width = len;
}

void report_measure(report *r, const report_column *column, int n, bool json)
{
    *r = (report){.n = n, .json = json, .measuring = true};
    r->colour = !json && term_has_colour(stdout);
    for (int i = 0; i < n; i++) {
        r->column[i] = column[i];
        widen(&r->column[i], column[i].title ? column[i].title : "");
    }
}

void report_print(report *r)
{
    r->measuring = false;
    if (r->json)
        return;
    report_cell title[REPORT_MAX_COLUMNS];
    for (int i = 0; i < r->n; i++) {
        title[i] = cell_text(r->column[i].title ? r->column[i].title : "");
        title[i].colour = TERM_BOLD;
    }
    print_line(r, title);
}

void report_begin(report *r, const report_column *column, int n, bool json)
{
    report_measure(r, column, n, json);
    report_print(r);
}

void report_row(report *r, const report_cell *cell)
{
    if (r->measuring) {
        char number[CELL_SIZE];
        r->measured++;
        for (int i = 0; i < r->n; i++)
            widen(&r->column[i], cell_shows(&cell[i], number, sizeof number));
        return;
    }
    if (r->json)
        print_json(r, cell);
    else
        print_line(r, cell);
    report_flush();
}
