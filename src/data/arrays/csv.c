/* Reading tables of numbers from text: for formats/csv.c. */
#include "data/arrays/csv.h"

#include "base/mark.h"
#include "base/text/number.h"
#include "data/format.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

/* The text, and where the reader stands in it. */
struct text {
    const lk__source *source;
    const char *bytes;
    int64_t n, at, line;
    int64_t cell_at; /* where the last cell began */
    char separator;
    char cell[LK_CSV_MAX_CELL];
};

static lk_status wrong(const struct text *t, int64_t column, const char *what)
{
    return LK_DAMAGED(t->source, t->cell_at, "line %lld, column %lld: \"%s\" %s",
                      (long long)t->line, (long long)column + 1, t->cell, what);
}

/* Read the next cell, without the spaces around it; `*last`: the line ends behind it. */
static lk_status next_cell(struct text *t, int64_t column, bool *last)
{
    int64_t end = t->at;
    while (end < t->n && t->bytes[end] != t->separator && t->bytes[end] != '\n')
        end++;
    *last = end == t->n || t->bytes[end] == '\n';
    int64_t from = t->at, to = end;
    t->cell_at = t->at;
    while (from < to && (t->bytes[from] == ' ' || t->bytes[from] == '\t'))
        from++;
    while (to > from &&
           (t->bytes[to - 1] == ' ' || t->bytes[to - 1] == '\t' || t->bytes[to - 1] == '\r'))
        to--;
    bool fits = to - from < LK_CSV_MAX_CELL;
    size_t n = fits ? (size_t)(to - from) : LK_CSV_MAX_CELL - 1;
    memcpy(t->cell, t->bytes + from, n);
    t->cell[n] = '\0';
    if (!fits || strlen(t->cell) != n)
        return wrong(t, column, "is too long a cell, or not text");
    t->at = end < t->n ? end + 1 : end;
    return LK_OK;
}

/* Pass lines that are empty; false at the end. */
static bool next_line(struct text *t)
{
    while (t->at < t->n) {
        int64_t end = t->at;
        while (end < t->n && (t->bytes[end] == ' ' || t->bytes[end] == '\r'))
            end++;
        if (end < t->n && t->bytes[end] != '\n') {
            t->line++;
            return true;
        }
        t->line++;
        t->at = end < t->n ? end + 1 : end;
    }
    return false;
}

/* The number of a column: "last", "none" (-1), a number, or what `named` found. */
static lk_status label_column(const struct text *t, const char *label, int64_t columns,
                              int64_t named, int64_t *out)
{
    *out = named;
    if (strcmp(label, "none") == 0)
        *out = -1;
    else if (strcmp(label, "last") == 0)
        *out = columns - 1;
    else if (named < 0)
        LK_CHECK(!lk__number_read_int(label, out) && *out >= 0 && *out < columns, LK_EINVAL,
                 "%s: there is no column \"%s\", it has %lld", lk__source_name(t->source), label,
                 (long long)columns);
    LK_CHECK(columns > 1 || *out < 0, LK_EINVAL,
             "%s: it has one column: there are no values beside the label",
             lk__source_name(t->source));
    return LK_OK;
}

/* Read the first row: the columns, whether it is a header, and which cell is named `label`. */
static lk_status first_row(struct text *t, const char *label, int64_t *columns, bool *header,
                           int64_t *named)
{
    bool last = false;
    *columns = 0;
    *named = -1;
    *header = false;
    while (!last) {
        double v;
        LK_TRY(next_cell(t, *columns, &last));
        if (strcmp(t->cell, label) == 0)
            *named = *columns;
        *header = *header || lk__number_read_real(t->cell, &v) != NULL;
        ++*columns;
        if (*columns > LK_CSV_MAX_COLUMNS)
            return wrong(t, *columns, "is one cell too many");
    }
    return LK_OK;
}

/* Lines with something in them, from here on. */
static int64_t count_rows(struct text t)
{
    int64_t rows = 0;
    while (next_line(&t)) {
        const char *end = memchr(t.bytes + t.at, '\n', (size_t)(t.n - t.at));
        t.at = end ? end - t.bytes + 1 : t.n;
        rows++;
    }
    return rows;
}

/* Where the values go. */
struct target {
    void *x;
    bool f64, real;
    int64_t *label;
    void *y;
    int64_t columns, at_label;
};

static void put_real(void *to, bool f64, int64_t i, double v)
{
    if (f64)
        ((double *)to)[i] = v;
    else
        ((float *)to)[i] = (float)v;
}

static lk_status read_row(struct text *t, int64_t row, const struct target *to)
{
    bool last = false;
    int64_t width = to->columns - (to->at_label >= 0), k = row * width;
    for (int64_t c = 0; !last; c++) {
        double v;
        LK_TRY(next_cell(t, c, &last));
        if (c >= to->columns || (last && c != to->columns - 1))
            return wrong(t, c,
                         c >= to->columns ? "is one cell too many for this table"
                                          : "is the last cell of a row that is too short");
        const char *why = c == to->at_label && !to->real
                              ? lk__number_read_int(t->cell, &to->label[row])
                              : lk__number_read_real(t->cell, &v);
        if (why)
            return wrong(t, c, why);
        if (c != to->at_label)
            put_real(to->x, to->f64, k++, v);
        else if (to->real)
            put_real(to->y, to->f64, row, v);
    }
    return LK_OK;
}

/* Memory for all values, owned by the table. */
static lk_status add_fields(lk__table *t, const lk__source *s, const lk__csv_options *o,
                            struct target *to)
{
    lk_dtype dtype = o->f64 ? LK_F64 : LK_F32;
    int64_t width = to->columns - (to->at_label >= 0), count;
    lk_shape shape;
    LK_TRY(lk__shape_given(&o->shape, LK_SHAPE(width), lk__source_name(s), &shape));
    LK_TRY(lk_mul_i64(t->info.count, width, &count));
    LK_TRY(lk_alloc(&to->x, count, lk_dtype_size(dtype)));
    LK_TRY(lk__table_memory(t, "x", dtype, shape, to->x));
    if (to->at_label < 0)
        return LK_OK;
    lk_dtype y = o->real ? dtype : LK_I64;
    LK_TRY(lk_alloc(&to->y, t->info.count, lk_dtype_size(y)));
    to->label = o->real ? NULL : to->y;
    return LK_TRACE(lk__table_memory(t, "y", y, LK_SCALAR, to->y));
}

static lk_status read_text(lk__table *t, struct text *text, const lk__csv_options *o)
{
    struct target to = {.f64 = o->f64, .real = o->real};
    bool header;
    int64_t named;
    struct text start = *text;
    LK_CHECK(next_line(text), LK_EIO, "%s: there is nothing in it", lk__source_name(text->source));
    LK_TRY(first_row(text, o->label, &to.columns, &header, &named));
    header = o->header == LK_CSV_AUTO ? header : o->header == LK_CSV_WITH;
    LK_TRY(label_column(text, o->label, to.columns, header ? named : -1, &to.at_label));
    if (!header)
        *text = start;
    t->info.count = count_rows(*text);
    LK_TRY(add_fields(t, text->source, o, &to));
    for (int64_t i = 0; next_line(text); i++)
        LK_TRY(read_row(text, i, &to));
    t->info.classes = to.label ? o->classes : 0;
    if (to.label)
        LK_TRY(lk__labels_check(text->source, to.label, t->info.count, t->info.count,
                                &t->info.classes));
    return LK_OK;
}

lk_status lk__csv_dataset(lk__table *t, const lk__source *s, const lk__csv_options *o,
                          lk_dataset **out)
{
    char *bytes;
    t->info.name = lk__source_name(s);
    LK_TRY(lk__source_load(s, 0, lk__source_size(s), "the text", &bytes));
    struct text text = {
        .source = s, .bytes = bytes, .n = lk__source_size(s), .separator = o->separator};
    int mark = lk__mark_bytes(bytes, (size_t)text.n);
    text.at = mark;
    lk_status st = mark < 0 ? LK_DAMAGED(s, 0, "%s", "the text is UTF-16 or UTF-32, not UTF-8")
                            : read_text(t, &text, o);
    lk_free(bytes);
    LK_TRY(st);
    return LK_TRACE(lk__table_finish(t, out));
}
