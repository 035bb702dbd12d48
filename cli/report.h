/* A table for people or for scripts.
 *
 * A verb names its columns once.  As text each row is a line of aligned cells; with --json it is one
 * object on a line, with the columns' keys.  Rows are printed as they come, in columns that are as wide
 * as the verb says, as their titles and as the rows that were measured before; or all at the end, when
 * the longest is known.
 *
 * A number that is too wide for its column has fewer digits, or an exponent.  What is too wide all the
 * same takes its room from the blanks of the columns behind it, so that these stay where they are.
 */
#ifndef LK_CLI_REPORT_H
#define LK_CLI_REPORT_H

#include <lockstep/option.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct report_column {
    const char *key;   /* in JSON; NULL: only in the table */
    const char *title; /* in the table; NULL: only in JSON */
    int width;         /* at least; negative: aligned to the left */
} report_column;

typedef enum report_kind {
    CELL_NONE,
    CELL_TEXT,
    CELL_INT,
    CELL_REAL,
    CELL_BOOL,
    CELL_FIGURE
} report_kind;

typedef struct report_cell {
    report_kind kind;
    int decimals;       /* CELL_REAL, CELL_FIGURE, in the table; negative: with an exponent */
    const char *text;   /* CELL_TEXT, and what CELL_BOOL or CELL_NONE shows in the table */
    int64_t integer;    /* CELL_INT, CELL_BOOL */
    double real;        /* CELL_REAL; CELL_FIGURE, NaN: not known */
    double noise;       /* CELL_FIGURE: `real` may be off by this; a key of its own in JSON */
    bool brief;         /* CELL_FIGURE, in the table: without the noise */
    const char *colour; /* on a terminal; NULL: none */
} report_cell;

enum { REPORT_MAX_COLUMNS = 24 };

typedef struct report {
    report_column column[REPORT_MAX_COLUMNS];
    int n, measured;
    bool json, colour, measuring;
    struct report_kept *first, *last; /* rows that report_end() prints */
    lk_arena *kept;                   /* where they are; NULL: rows are printed as they come */
} report;

/**
 * Begin a table on stdout with `n` columns by measuring: rows are not printed, but counted in
 * `measured`, and widen their columns.  Then report_print(), and give the rows again.
 */
void report_measure(report *r, const report_column *column, int n, bool json);

/** Print the titles, unless in JSON; rows are printed from now on. */
void report_print(report *r);

/** Begin a table and print its titles: report_measure() without rows, and report_print(). */
void report_begin(report *r, const report_column *column, int n, bool json);

/** Begin a table whose rows are printed by report_end(), in columns that are as wide as they need; in JSON
 * they are printed as they come. */
void report_keep(report *r, const report_column *column, int n, bool json);

/** Print the titles and the rows that were kept, if there are any. */
void report_end(report *r);

/** Print, measure or keep a row of `n` cells.  In JSON, a cell of CELL_NONE is left out. */
void report_row(report *r, const report_cell *cell);

/**
 * Flush stdout.  Returns the errno of the first write to it that failed, 0 if all went well.
 *
 * If it is a pipe whose reader has left, as of `| head`, the process ends by SIGPIPE, as others do.
 */
int report_flush(void);

/** From here on the process outlives the reader of its output: its work is another. */
void report_outlive(void);

/** `v` for printf(): a NaN without its sign, which means nothing. */
double report_plain(double v);

/** Print `text` as a JSON string. */
void report_json_text(const char *text);

/** Print a number in JSON: six digits, null if it is not finite. */
void report_json_real(double v);

static inline report_cell cell_none(void)
{
    return (report_cell){.kind = CELL_NONE, .text = "-"};
}

static inline report_cell cell_text(const char *text)
{
    return (report_cell){.kind = CELL_TEXT, .text = text};
}

static inline report_cell cell_int(int64_t v)
{
    return (report_cell){.kind = CELL_INT, .integer = v};
}

static inline report_cell cell_real(double v, int decimals)
{
    return (report_cell){.kind = CELL_REAL, .real = v, .decimals = decimals};
}

static inline report_cell cell_bool(bool v, const char *text, const char *colour)
{
    return (report_cell){.kind = CELL_BOOL, .integer = v, .text = text, .colour = colour};
}

#endif /* LK_CLI_REPORT_H */
