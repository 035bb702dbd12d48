/* What the targets of data formats share: an input is read as a file in memory, then all samples of
 * what was found. */
#ifndef LK_TEST_FUZZ_DATA_H
#define LK_TEST_FUZZ_DATA_H

#include "data/arrays/table.h"
#include "fuzz.h"

/* Inputs have some kilobytes: what needs more memory than this was taken on a length's word. */
enum { FUZZ_MEMORY = 48 << 20 };

static inline lk__source *fuzz_source(const void *bytes, size_t n)
{
    lk__source *s;
    if (lk__source_memory("input", bytes, (int64_t)n, &s) != LK_OK)
        abort();
    return s;
}

static inline lk__table *fuzz_table(void)
{
    lk__table *t;
    if (lk__table_new(&t) != LK_OK)
        abort();
    return t;
}

/* The table owns a source of these bytes. */
static inline const lk__source *fuzz_own(lk__table *t, const void *bytes, size_t n)
{
    lk__source *s = fuzz_source(bytes, n);
    if (lk__table_own(t, s) != LK_OK)
        abort();
    return s;
}

/* Read all samples of `ds`, which is NULL after a failure, and free it. */
static inline void fuzz_finish(lk_status st, lk_dataset *ds)
{
    fuzz_check_status(st);
    if (ds) {
        uint64_t hash;
        fuzz_check_status(lk_dataset_hash(ds, &hash));
        lk_dataset_free(ds);
    }
    fuzz_check_memory();
    FUZZ_CHECK(lk_alloc_stats_now().peak_bytes < FUZZ_MEMORY);
}

/* The same of a table, which is the dataset's after success. */
static inline void fuzz_finish_table(lk_status st, lk__table *t, lk_dataset *ds)
{
    if (st != LK_OK) {
        FUZZ_CHECK(!ds);
        lk__table_free(t);
    }
    fuzz_finish(st, ds);
}

#endif /* LK_TEST_FUZZ_DATA_H */
