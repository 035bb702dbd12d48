/* Datasets whose fields lie in sources as rows of equal size: the common case of files.
 *
 * A reader begins a table, says what it found, and turns it into a dataset, which then owns the
 * sources.  All checks of sizes against the bytes that are there are made here.  Samples stay in the
 * sources and are read by boxes; in memory are labels, where a sample has one.
 */
#ifndef LK_DATA_TABLE_H
#define LK_DATA_TABLE_H

#include "data/source.h"

#include <lockstep/data.h>

typedef struct lk__table lk__table;
struct lk__table {
    lk_dataset_info info; /* the reader sets name, count and, before labels, classes */
    struct {
        const lk__source *source; /* NULL: in memory */
        int64_t offset, bytes;    /* of the first row, and of a row, as they lie there */
        lk_dtype dtype;           /* of elements there; labels become i64 */
        bool swap;                /* big-endian */
        void *memory;             /* owned */
    } column[LK_MAX_FIELDS];
    lk__source *source[LK_MAX_FIELDS]; /* owned */
    int n_sources;
};

/** How elements lie in a source. */
typedef struct lk__layout_in {
    const lk__source *source;
    int64_t offset;
    lk_dtype dtype;
    bool swap;
    lk_shape shape; /* of a sample */
} lk__layout_in;

lk_status lk__table_new(lk__table **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__table_free(lk__table *t);

/** The table owns `s` from here on, also if this fails. */
lk_status lk__table_own(lk__table *t, lk__source *s) LK_NODISCARD;

/** Open a file; the table owns it. */
lk_status lk__table_open(lk__table *t, const char *path, const lk__source **out) LK_NODISCARD;

/** A field whose rows stay where they are. */
lk_status lk__table_rows(lk__table *t, const char *name, const lk__layout_in *in) LK_NODISCARD;

/** Field "y": labels of an integer dtype, given as i64.  All are read here and checked against the classes;
 * with none given, there are as many as the largest label says. */
lk_status lk__table_labels(lk__table *t, const lk__layout_in *in) LK_NODISCARD;

/** Field "y" as labels if it is of an integer dtype, otherwise as rows. */
lk_status lk__table_targets(lk__table *t, const lk__layout_in *in) LK_NODISCARD;

/** A field in memory, a block of lk_alloc() that the table owns from here on, also if this fails. */
lk_status lk__table_memory(lk__table *t, const char *name, lk_dtype dtype, lk_shape shape,
                           void *memory) LK_NODISCARD;

/** The dataset, which owns the table if this succeeds. */
lk_status lk__table_finish(lk__table *t, lk_dataset **out) LK_NODISCARD;

#endif /* LK_DATA_TABLE_H */
