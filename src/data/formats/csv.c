/* csv: tables of numbers as text, a sample a line. */
#include "data/arrays/csv.h"

#include "base/text/number.h"
#include "data/dataset.h"
#include "data/format.h"
#include "data/sink.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

struct csv_options {
    const char *path, *test, *separator;
    lk__csv_options table;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct csv_options, path, "the file of the training set"),
    LK_PATH_OPTION(struct csv_options, test, "the file of the test set"),
    {.name = "label",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(struct csv_options, table.label),
     .value = "COLUMN",
     .def = "last",
     .help = "the column of the labels: a name, a number from 0, last or none"},
    {.name = "real",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(struct csv_options, table.real),
     .help = "that column holds real targets, not classes"},
    {.name = "header",
     .type = LK_OPTION_CHOICE,
     .offset = offsetof(struct csv_options, table.header),
     .def = "auto",
     .choices = "auto yes no",
     .help = "whether the first row names the columns; auto: if a cell of it is no number"},
    {.name = "separator",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(struct csv_options, separator),
     .value = "CHARACTER",
     .def = "comma",
     .help = "between cells: one character, or comma, semicolon, tab or space"},
    {.name = "double",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(struct csv_options, table.f64),
     .help = "keep the values as f64, not f32"},
    {.name = "classes",
     .type = LK_OPTION_INT,
     .offset = offsetof(struct csv_options, table.classes),
     .value = "N",
     .def = "0",
     .min = 0,
     .max = LK_MAX_CLASSES,
     .help = "how many classes there are; 0: one more than the largest label"},
    {.name = "shape",
     .type = LK_OPTION_INTS,
     .offset = offsetof(struct csv_options, table.shape),
     .value = "N,N,...",
     .min = 1,
     .max = 1e9,
     .help = "the shape of a sample; default: one axis"},
    {.name = NULL},
};

static lk_status find_separator(const char *text, char *out)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"space", ' '}};
    *out = text[0];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, text) == 0) {
            *out = known[i].c;
            return LK_OK;
        }
    LK_CHECK(strlen(text) == 1 && text[0] != '\n' && text[0] != '\r', LK_EINVAL,
             "csv: \"%s\" is no separator", text);
    return LK_OK;
}

static lk_status csv_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct csv_options *o = given;
    *out = NULL;
    const char *path = split == LK_TRAIN ? o->path : split == LK_TEST ? o->test : NULL;
    LK_CHECK(o->path || o->test, LK_EINVAL, "csv: give path, the file to read");
    lk__csv_options table = o->table;
    LK_TRY(find_separator(o->separator, &table.separator));
    if (!path)
        return LK_OK;
    lk__table *t;
    const lk__source *s;
    LK_TRY(lk__table_new(&t));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, lk__table_open(t, path, &s));
    LK_TRY_TO(fail, lk__csv_dataset(t, s, &table, out));
    return LK_OK;
fail:
    lk__table_free(t);
    return st;
}

/* ---- writing: a header "x0,x1,...,y", then a line for each sample ---- */

/* Element i of a row as a number; whole ones of 64 bits keep all digits. */
static lk_status write_value(lk__sink *s, lk_dtype dtype, const void *row, int64_t i)
{
    char text[LK_NUMBER_TEXT];
    double real = dtype == LK_F32   ? (double)((const float *)row)[i]
                  : dtype == LK_F64 ? ((const double *)row)[i]
                                    : 0;
    LK_CHECK(real - real == 0, LK_ENOTSUP, "a value that is not finite is not written as text");
    switch (dtype) {
    case LK_F32:
    case LK_F64: lk__number_show(real, text); break;
    case LK_I32: snprintf(text, sizeof text, "%d", ((const int32_t *)row)[i]); break;
    case LK_I64: snprintf(text, sizeof text, "%lld", (long long)((const int64_t *)row)[i]); break;
    default: snprintf(text, sizeof text, "%d", ((const unsigned char *)row)[i]); break;
    }
    return LK_TRACE(lk__sink_write(s, text, (int64_t)strlen(text)));
}

static lk_status write_line(lk__sink *s, const lk_dataset_info *info, void *const *row, bool header)
{
    bool first = true;
    for (int f = 0; f < info->n_fields; f++) {
        const lk_field *field = &info->field[f];
        int64_t n = lk__field_bytes(field) / (int64_t)lk_dtype_size(field->dtype);
        for (int64_t i = 0; i < n; i++, first = false) {
            if (!first)
                LK_TRY(lk__sink_write(s, ",", 1));
            char name[LK_FIELD_NAME + 32];
            int len = field->shape.ndim == 0
                          ? snprintf(name, sizeof name, "%s", field->name)
                          : snprintf(name, sizeof name, "%s%lld", field->name, (long long)i);
            LK_TRY(header ? lk__sink_write(s, name, len) : write_value(s, field->dtype, row[f], i));
        }
    }
    return LK_TRACE(lk__sink_write(s, "\n", 1));
}

static lk_status csv_write(const lk_dataset *ds, lk_split split, const void *given,
                           const char *path)
{
    (void)split, (void)given; /* the file holds one */
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    for (int f = 0; f < info->n_fields; f++)
        LK_CHECK(info->field[f].dtype <= LK_U8, LK_ENOTSUP, "%s: %s is not written as text", path,
                 lk_dtype_name(info->field[f].dtype));
    void *row[LK_MAX_FIELDS], *block;
    lk__sink *s;
    LK_TRY(lk__dataset_rows_new(ds, row, &block));
    lk_status st = lk__sink_open(path, &s);
    if (st == LK_OK) {
        st = write_line(s, info, row, true);
        for (int64_t i = 0; st == LK_OK && i < info->count; i++) {
            st = lk__dataset_row(ds, i, row);
            if (st == LK_OK)
                st = write_line(s, info, row, false);
        }
        st = lk__sink_end(s, st);
    }
    lk_free(block);
    return LK_TRACE(st);
}

const lk_format lk__format_csv = {
    .descriptor = {.name = "csv",
                   .summary = "tables of numbers as text, a sample a line",
                   .details = "Cells are numbers without quotes. One column may be the label.",
                   .options = options,
                   .options_size = sizeof(struct csv_options)},
    .open = csv_open,
    .write = csv_write,
    .suffix = ".csv",
};
