/* Tables of numbers as text: rows in lines, cells between separators, without quotes. */
#ifndef LK_DATA_CSV_H
#define LK_DATA_CSV_H

#include "data/arrays/table.h"

enum { LK_CSV_MAX_COLUMNS = 1 << 20, LK_CSV_MAX_CELL = 64 };

typedef enum lk__csv_header { LK_CSV_AUTO, LK_CSV_WITH, LK_CSV_WITHOUT } lk__csv_header;

typedef struct lk__csv_options {
    int header; /* lk__csv_header; AUTO: the first row is one if a cell is no number */
    char separator;
    const char *label; /* a column's name or number from 0, "last" or "none" */
    bool real;         /* y is a real target, not a class */
    bool f64;          /* values are f64, not f32 */
    int64_t classes;
    lk_option_ints shape;
} lk__csv_options;

/** The dataset of the text `s`, which `t` owns; `*out` then owns `t`. */
lk_status lk__csv_dataset(lk__table *t, const lk__source *s, const lk__csv_options *o,
                          lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_CSV_H */
