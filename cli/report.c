/* Tables that verbs print row by row: aligned text for people, or one JSON object a line for
 * scripts. */
#include "report.h"

#include "term.h"

#include <lockstep/extra/text.h>

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

/* Whether stdout is a pipe without a reader. */
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

/* The value, and its noise by a key of its own. */
static void print_json_figure(const char *key, const report_cell *c)
{
    report_json_real(c->real);
    printf(", \"%s_noise\": ", key);
    report_json_real(c->noise);
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
        case CELL_FIGURE: print_json_figure(r->column[i].key, &cell[i]); break;
        case CELL_BOOL: printf(cell[i].integer ? "true" : "false"); break;
        case CELL_NONE: break;
        }
    }
    printf("%s}\n", *separator == '{' ? "{" : "");
}

/* ---- what a cell shows ---- */

enum { WIDEST_REAL = 12 };

/* Characters of a text in UTF-8. */
static int characters(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* A real in at most `width` characters, if it can be: with fewer decimals, then with an exponent. */
static void real_text(double v, int decimals, int width, char *out, size_t size)
{
    out[0] = '\0';
    for (int d = decimals; d >= 0; d--)
        if (snprintf(out, size, "%.*f", d, report_plain(v)) <= width)
            return;
    for (int d = decimals < 0 ? -decimals : 3; d >= 0; d--)
        if (snprintf(out, size, "%.*e", d, report_plain(v)) <= width)
            return;
}

/* What a cell shows in its column; `number` is room for it. */
static const char *cell_shows(const report *r, int i, const report_cell *c, char *number,
                              size_t size)
{
    int n, width = abs(r->column[i].width);
    switch (c->kind) {
    case CELL_INT: snprintf(number, size, "%lld", (long long)c->integer); return number;
    case CELL_REAL:
        real_text(c->real, c->decimals, r->measuring && width < WIDEST_REAL ? WIDEST_REAL : width,
                  number, size);
        return number;
    case CELL_FIGURE:
        if (!isfinite(c->real))
            return "-";
        n = snprintf(number, size, "%.*f", c->decimals, c->real);
        if (!c->brief)
            snprintf(number + n, size - (size_t)n, " +-%2.0f%%",
                     fmin(99, 100 * c->noise / c->real));
        return number;
    case CELL_TEXT:
        lk_sanitize_text(c->text, number, size);
        return number; /* from a file, perhaps */
    default: return c->text;
    }
}

/* ---- lines ---- */

static void print_blanks(int n)
{
    printf("%*s", n > 0 ? n : 0, "");
}

/* Print a cell in its column's width, less the characters that cells before it took from it, `*debt`; the
 * last of a line has no blanks behind it. */
static void print_cell(const report *r, int i, bool last, const report_cell *c, int *debt)
{
    char number[CELL_SIZE];
    const char *text = cell_shows(r, i, c, number, sizeof number);
    int width = abs(r->column[i].width), blanks = width - characters(text) - *debt;
    bool left = r->column[i].width < 0;
    *debt = blanks < 0 ? -blanks : 0;
    if (!left)
        print_blanks(blanks);
    if (c->colour && r->colour)
        printf("%s%s%s", c->colour, text, TERM_RESET);
    else
        printf("%s", text);
    if (left && !last)
        print_blanks(blanks);
}

static void print_line(const report *r, const report_cell *cell)
{
    int last = r->n - 1, debt = 0;
    while (last > 0 && (!r->column[last].title ||
                        ((cell[last].kind == CELL_TEXT) && cell[last].text[0] == '\0')))
        last--;
    const char *separator = "";
    for (int i = 0; i <= last; i++)
        if (r->column[i].title) {
            printf("%s", separator);
            separator = "  ";
            print_cell(r, i, i == last, &cell[i], &debt);
        }
    putchar('\n');
}

static void widen(report_column *column, const char *text)
{
    int len = characters(text);
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
    report_cell title[REPORT_MAX_COLUMNS] = {{.kind = CELL_NONE}};
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

static void measure_row(report *r, const report_cell *cell)
{
    char number[CELL_SIZE];
    r->measured++;
    for (int i = 0; i < r->n; i++)
        widen(&r->column[i], cell_shows(r, i, &cell[i], number, sizeof number));
}

/* ---- rows that are kept ---- */

struct report_kept {
    struct report_kept *next;
    report_cell cell[REPORT_MAX_COLUMNS];
};

void report_keep(report *r, const report_column *column, int n, bool json)
{
    report_measure(r, column, n, json);
    r->measuring = false;
    if (!json && lk_arena_new(&r->kept) != LK_OK) {
        lk_error_clear();
        report_print(r);
    }
}

/* Keep a row, with its texts; false: there is no memory for it. */
static bool keep_row(report *r, const report_cell *cell)
{
    struct report_kept *row = NULL;
    bool kept = lk_arena_alloc(r->kept, &row, 1, sizeof *row) == LK_OK;
    for (int i = 0; i < r->n && kept; i++) {
        row->cell[i] = cell[i];
        if (cell[i].kind == CELL_TEXT)
            kept = lk_arena_text(r->kept, cell[i].text, strlen(cell[i].text), &row->cell[i].text) ==
                   LK_OK;
    }
    if (!kept)
        return false;
    if (r->last)
        r->last->next = row;
    else
        r->first = row;
    r->last = row;
    r->measuring = true;
    measure_row(r, cell);
    r->measuring = false;
    return true;
}

void report_end(report *r)
{
    lk_arena *kept = r->kept;
    if (!kept)
        return;
    r->kept = NULL;
    if (r->first)
        report_print(r);
    for (const struct report_kept *row = r->first; row; row = row->next)
        print_line(r, row->cell);
    lk_arena_free(kept);
    report_flush();
}

void report_row(report *r, const report_cell *cell)
{
    if (r->measuring) {
        measure_row(r, cell);
        return;
    }
    if (r->kept && keep_row(r, cell))
        return;
    if (r->kept) { /* print what could be kept, and go on so */
        lk_error_clear();
        report_end(r);
    }
    if (r->json)
        print_json(r, cell);
    else
        print_line(r, cell);
    report_flush();
}
