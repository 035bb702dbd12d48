/* The confusion table of a report: labels by predictions, the darker a cell, the larger its share
 * of the row. */
#include "base/memory/grow.h"
#include "base/text/json.h"
#include "io/report/report.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum { MOST_SHOWN = 128 };

/* Whole numbers row by row, and how many columns the rows have. */
typedef struct table {
    int64_t *count;
    int64_t n, room, rows, columns;
} table;

static lk_status row_read(lk__json *j, table *t)
{
    bool more;
    int64_t columns = 0;
    LK_TRY(lk__json_open(j, '['));
    for (;;) {
        LK_TRY(lk__json_more(j, ']', &more));
        if (!more)
            break;
        LK_TRY(lk__grow(&t->count, &t->room, t->n + 1, sizeof *t->count));
        LK_TRY(lk__json_int(j, &t->count[t->n]));
        t->n++;
        columns++;
    }
    if (t->rows++ == 0)
        t->columns = columns;
    if (columns != t->columns)
        return lk__json_refuse(j, "a row with another number of columns");
    return LK_OK;
}

static lk_status table_read(const char *json, table *t)
{
    lk__json j = {.name = "confusion", .text = json, .n = (int64_t)strlen(json)};
    bool more;
    LK_TRY(lk__json_open(&j, '['));
    for (;;) {
        LK_TRY(lk__json_more(&j, ']', &more));
        if (!more)
            break;
        LK_TRY(row_read(&j, t));
    }
    LK_TRY(lk__json_end(&j));
    if (t->rows != t->columns)
        return lk__json_refuse(&j, "the table is not square");
    return LK_OK;
}

static void put_row(lk__out *o, const table *t, int64_t row)
{
    const int64_t *count = t->count + row * t->columns;
    double all = 0, right = 0;
    for (int64_t i = 0; i < t->columns; i++) {
        all += (double)count[i];
        if (i == row)
            right = (double)count[i];
    }
    lk__out_format(o, "<tr><th scope=\"row\">%lld</th>", (long long)row);
    for (int64_t i = 0; i < t->columns; i++) {
        double share = all > 0 ? (double)count[i] / all : 0;
        lk__out_format(o, "<td class=\"%s%s\" style=\"--share:", i == row ? "hit" : "miss",
                       share > (i == row ? 0.5 : 0.25) ? " full"
                       : count[i] == 0                 ? " none"
                                                       : "");
        lk__out_fixed(o, share, 3);
        lk__out_format(o, "\">%lld</td>", (long long)count[i]);
    }
    lk__out_put(o, "<td class=\"recall\">");
    if (all > 0) {
        lk__out_fixed(o, 100 * right / all, 1);
        lk__out_put(o, " %");
    }
    lk__out_put(o, "</td></tr>\n");
}

static void put_table(lk__out *o, const table *t)
{
    if (t->columns > MOST_SHOWN) {
        lk__out_format(o, "<p>%lld classes are too many to be shown.</p>\n", (long long)t->columns);
        return;
    }
    lk__out_put(o,
                "<p>Rows are labels, columns what they were taken for. The shade shows the share "
                "of the row; the last column is the share that was right.</p>\n"
                "<div class=\"wide\"><table class=\"confusion\"><tr><th></th>");
    for (int64_t i = 0; i < t->columns; i++)
        lk__out_format(o, "<th scope=\"col\">%lld</th>", (long long)i);
    lk__out_put(o, "<th scope=\"col\">right</th></tr>\n");
    for (int64_t i = 0; i < t->rows; i++)
        put_row(o, t, i);
    lk__out_put(o, "</table></div>\n");
}

lk_status lk__report_confusion(lk__out *o, const char *json)
{
    table t = {0};
    lk_status st = table_read(json, &t);
    if (st == LK_OK)
        put_table(o, &t);
    lk_free(t.count);
    return LK_TRACE(st);
}
